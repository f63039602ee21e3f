"""A producer's calls as both faces have them: transactions, but for their ends, which wait for deliveries."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.faces.call import call, keywords
from ottla.client.model import CommittedOffset, GroupMetadata
from ottla.client.produce.producing import Sender
from ottla.client.produce.transacting import Transactor
from ottla.kernel.ids import TopicPartition


class ProducerCalls:
    """The calls of a `Producer` that ask brokers, and nothing of its sending thread or task."""

    _sender: Sender

    @call
    async def init_transactions(self) -> None:
        """Take the transactional id over: call it once, first. Producers that had the id before are fenced.

        Raises InvalidTransactionState without a transactional id or at a second call, TransactionFailed where the
        coordinator refuses. After RequestTimedOut or a lost connection it may be called again.
        """
        await self._transactor.init()

    @keywords
    def begin_transaction(self) -> None:
        """Begin a transaction: the records and offsets that follow become visible together, or never.

        Asks no broker. Raises InvalidTransactionState before `init_transactions` and while a transaction is open.

            from ottla.client.errors import TransactionMustAbort

            with Producer("localhost:9092", transactional_id="page-1") as producer:
                producer.init_transactions()
                producer.begin_transaction()
                producer.produce("pets", "cat")
                try:
                    producer.commit_transaction()
                except TransactionMustAbort as fault:
                    print(fault.__cause__)
                    producer.abort_transaction()
        """
        self._transactor.begin()

    @call
    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata | str
    ) -> None:
        """Commit the next offsets to read for a group together with the transaction.

        `group` is the consumer's `group_metadata`, so that the coordinator refuses a member that was replaced, or a
        group's id for a group without members. Raises InvalidTransactionState where no transaction is open,
        TransactionMustAbort where the offsets are refused.

            from ottla.client import CommittedOffset, TopicPartition

            with Producer("localhost:9092", transactional_id="page-2") as producer:
                producer.init_transactions()
                with producer.transaction():
                    producer.produce("pets", "copied")
                    producer.send_offsets({TopicPartition("pets", 0): CommittedOffset(1)}, "copiers")
        """
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        await self._transactor.send_offsets(offsets, metadata)

    send_offsets = send_offsets_to_transaction

    @property
    def _transactor(self) -> Transactor:
        return self._sender.require_transactor()
