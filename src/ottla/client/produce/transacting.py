"""The stories of transactions: a producer id from the coordinator, partitions and offsets added, batches, the end.

`Transactor` serves one transactional id. The producers use it. A caller that places batches itself, as Spark's sink
does, drives its stories with `Cluster.run`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ottla.client.consume.offsets import by_topic
from ottla.client.core import transfer
from ottla.client.core.effects import Ask, FeaturesOf
from ottla.client.core.plan import TRANSACTION, ClusterPlan
from ottla.client.errors import BrokerUnreachable, ClientError, ConnectionLost, RequestTimedOut, refused
from ottla.client.model import (
    CommittedOffset,
    Destination,
    GroupMetadata,
    InTransaction,
    Produced,
    ProducerIdentity,
)
from ottla.client.produce.transaction import FEATURE, ProducerPhase, ProducerTransaction, TransactionRequest
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.records.batch import Batch

_SEQUENCES = 2**31
_CLIENTS_ADD_UNTIL = 3
"""The last version of AddPartitionsToTxn for clients; later ones are for brokers."""
_EPOCH_PER_TRANSACTION = 5
"""The version of EndTxn and TxnOffsetCommit from which on each transaction has its own epoch."""
_MEMBERS_SINCE = 3


class Transactor:
    """The transactions of one transactional id, one after the other. Not for several threads at once."""

    def __init__(self, plan: ClusterPlan, transactional_id: str, *, timeout_ms: int = 60_000) -> None:
        """The coordinator aborts a transaction that is open for longer than `timeout_ms`."""
        self.plan = plan
        self.timeout_ms = timeout_ms
        self.state = ProducerTransaction(transactional_id)
        self._sequences: dict[TopicPartition, int] = {}

    @property
    def transactional_id(self) -> str:
        return self.state.transactional_id

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch that batches of the open transaction carry; its end may bring others."""
        return self.state.identity

    @property
    def in_transaction(self) -> InTransaction:
        return InTransaction(self.transactional_id, brokers_add=self.state.brokers_add)

    async def init(self) -> ProducerIdentity:
        """Take the transactional id over: producers that had it are fenced, their open transaction is aborted."""
        self.state.require_uninitialized()
        try:
            identity = await self._identify(None)
            self.state.initialized(identity, await self._announced_version())
        except (ApiError, ClientError) as error:
            raise self.state.failed(error, TransactionRequest.INITIALIZE) from error
        return identity

    def begin(self) -> None:
        """Begin a transaction: the next batches and offsets belong together. Nothing is sent yet."""
        self.state.begin()

    def next_sequence(self, partition: TopicPartition) -> int:
        """The base sequence of the next batch that `produce` gets for this partition."""
        return self._sequences.get(partition, 0)

    async def add(self, partitions: Collection[TopicPartition]) -> None:
        """Make these partitions part of the transaction before anything is written to them."""
        self.state.require_writable()
        new = self.state.not_yet_added(partitions)
        if not new:
            return
        if not self.state.brokers_add:
            try:
                await self._add(new)
            except (ApiError, ClientError) as error:
                raise self.state.failed(error, TransactionRequest.ADD) from error
        self.state.partitions.update(new)

    async def produce(
        self,
        batches: Sequence[tuple[TopicPartition, bytes]],
        *,
        delivery_timeout_ms: int = 120_000,
        may_cut: bool = False,
    ) -> list[Produced]:
        """Append prepared batches one after the other, all of them part of the transaction.

        They must carry `identity`, the transactional bit and the sequences that `next_sequence` names. With
        `may_cut` the transaction goes on after MESSAGE_TOO_LARGE: the caller sends the batch again in smaller ones.
        """
        await self.add({partition for partition, _ in batches})
        produced = []
        for partition, batch in batches:
            self.state.require_open()
            try:
                place = await transfer.produce(
                    self.plan,
                    *partition,
                    batch,
                    delivery_timeout_ms=delivery_timeout_ms,
                    transaction=self.in_transaction,
                )
            except (ApiError, ClientError) as error:
                if may_cut and isinstance(error, ApiError) and error.code is ErrorCode.MESSAGE_TOO_LARGE:
                    raise
                self.state.batch_failed(error, was_sent=True)
                raise self.state.fault or error from error
            header = Batch(batch)
            self._sequences[partition] = (header.base_sequence + header.records_count) % _SEQUENCES
            produced.append(place)
        return produced

    async def send_offsets(self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata) -> None:
        """Commit offsets of a group together with the transaction; they count once it is committed."""
        self.state.require_open()
        if not offsets:
            return
        try:
            if not self.state.brokers_add and group.group_id not in self.state.groups:
                await self._add_group(group.group_id)
            self.state.groups.add(group.group_id)
            await self._commit_offsets(offsets, group)
        except (ApiError, ClientError) as error:
            raise self.state.failed(error, TransactionRequest.OFFSETS) from error

    async def commit(self, *, timeout_ms: float | None = None) -> None:
        """End the transaction: all of it becomes visible, or TransactionMustAbort is raised.

        After RequestTimedOut or a lost connection the outcome is not known: call it again.
        """
        self.state.begin_commit()
        await self._end(timeout_ms)

    async def abort(self, *, timeout_ms: float | None = None) -> None:
        """End the transaction: nothing of it is ever read by `read_committed`. As `commit` if no answer came."""
        self.state.begin_abort()
        await self._end(timeout_ms)

    async def _end(self, timeout_ms: float | None) -> None:
        state = self.state
        try:
            identity = await self._end_txn(timeout_ms) if state.holds_something else state.identity
            version = await self._announced_version()
            if state.wants_new_epoch(version):
                identity = await self._identify(identity)
        except (ApiError, ClientError) as error:
            raise state.failed(error, TransactionRequest.END) from error
        if identity != state.identity:
            self._sequences = {}
        state.ended(identity, version)

    async def _identify(self, current: ProducerIdentity | None) -> ProducerIdentity:
        return await transfer.init_producer_id(
            self.plan, self.transactional_id, transaction_timeout_ms=self.timeout_ms, current=current
        )

    async def _announced_version(self) -> int:
        """The level of `transaction.version`, as the coordinator said when we connected."""
        attempts = self.plan.attempts()
        while True:
            broker = await self.plan.coordinator(self.transactional_id, TRANSACTION)
            try:
                features = await FeaturesOf(broker.destination())
            except RequestTimedOut:
                self.plan.forget_coordinator(self.transactional_id, TRANSACTION)
                raise
            except (BrokerUnreachable, ConnectionLost) as away:
                self.plan.forget_coordinator(self.transactional_id, TRANSACTION)
                await attempts.after(away)
            else:
                return features.get(FEATURE, 0)

    async def _end_txn(self, timeout_ms: float | None) -> ProducerIdentity:
        state = self.state
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=state.identity.producer_id,
            producer_epoch=state.identity.producer_epoch,
            committed=state.phase is ProducerPhase.COMMITTING,
        )
        least, most = (_EPOCH_PER_TRANSACTION, 32767) if state.brokers_add else (0, _EPOCH_PER_TRANSACTION - 1)
        longest = self.plan.settings.request_timeout_ms
        wait_ms = longest if timeout_ms is None else max(1, min(longest, int(timeout_ms)))

        def ask(where: Destination) -> Ask[EndTxnResponse]:
            return Ask(
                where,
                EndTxnRequest,
                EndTxnResponse,
                lambda _: request,
                min_version=least,
                max_version=most,
                timeout_ms=wait_ms,
            )

        response = await self.plan.ask_coordinator(
            self.transactional_id,
            ask,
            lambda answer: answer.error_code,
            kind=TRANSACTION,
            timeout_ms=timeout_ms,
        )
        if response.error_code:
            raise refused(response.error_code, f"transaction of {self.transactional_id!r}")
        if state.brokers_add:
            return ProducerIdentity(response.producer_id, response.producer_epoch)
        return state.identity

    async def _add(self, partitions: Sequence[TopicPartition]) -> None:
        """Tell the coordinator; a topic that is not known yet is tried again, anything else refuses all."""
        identity = self.state.identity
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        attempts = self.plan.attempts()

        def ask(where: Destination) -> Ask[AddPartitionsToTxnResponse]:
            return Ask(
                where,
                AddPartitionsToTxnRequest,
                AddPartitionsToTxnResponse,
                lambda _: request,
                max_version=_CLIENTS_ADD_UNTIL,
            )

        while True:
            response = await self.plan.ask_coordinator(
                self.transactional_id, ask, lambda answer: next(iter(_refusals(answer)), (0, ""))[0], kind=TRANSACTION
            )
            errors = _refusals(response)
            if not errors:
                return
            code, partition = next((each for each in errors if each[0] != ErrorCode.OPERATION_NOT_ATTEMPTED), errors[0])
            await attempts.after(refused(code, f"adding {partition} to the transaction of {self.transactional_id!r}"))

    async def _add_group(self, group: str) -> None:
        identity = self.state.identity
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            group_id=group,
        )
        response: AddOffsetsToTxnResponse = await self.plan.ask_coordinator(
            self.transactional_id,
            lambda where: Ask(where, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, lambda _: request),
            lambda answer: answer.error_code,
            kind=TRANSACTION,
        )
        if response.error_code:
            raise refused(
                response.error_code, f"adding group {group!r} to the transaction of {self.transactional_id!r}"
            )

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata) -> None:
        named = group.generation >= 0 or bool(group.member_id) or group.instance_id is not None
        least = _EPOCH_PER_TRANSACTION if self.state.brokers_add else _MEMBERS_SINCE if named else 0
        most = 32767 if self.state.brokers_add else _EPOCH_PER_TRANSACTION - 1
        request = self._offsets_request(offsets, group)

        def ask(where: Destination) -> Ask[TxnOffsetCommitResponse]:
            return Ask(
                where,
                TxnOffsetCommitRequest,
                TxnOffsetCommitResponse,
                lambda _: request,
                min_version=least,
                max_version=most,
            )

        attempts = self.plan.attempts()
        while True:
            response = await self.plan.ask_coordinator(group.group_id, ask, _first_offset_error)
            code = _first_offset_error(response)
            if not code:
                return
            fault = refused(
                code, f"offsets of group {group.group_id!r} in the transaction of {self.transactional_id!r}"
            )
            if code == ErrorCode.REQUEST_TIMED_OUT:
                self.plan.forget_coordinator(group.group_id)
            await attempts.after(fault)

    def _offsets_request(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata
    ) -> TxnOffsetCommitRequest:
        topics = []
        for topic, indexes in by_topic(offsets).items():
            partitions = []
            for index in indexes:
                offset = offsets[TopicPartition(topic, index)]
                partitions.append(
                    TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        committed_metadata=offset.metadata,
                    )
                )
            topics.append(TxnOffsetCommitRequestTopic(name=topic, partitions=partitions))
        identity = self.state.identity
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=topics,
        )


def _refusals(response: AddPartitionsToTxnResponse) -> list[tuple[int, TopicPartition]]:
    return [
        (part.partition_error_code, TopicPartition(topic.name, part.partition_index))
        for topic in response.results_by_topic_v3_and_below
        for part in topic.results_by_partition
        if part.partition_error_code
    ]


def _first_offset_error(response: TxnOffsetCommitResponse) -> int:
    return next((part.error_code for topic in response.topics for part in topic.partitions if part.error_code), 0)
