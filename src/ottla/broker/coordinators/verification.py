"""Asks coordinators whether partitions are in a transaction, or has them put in (KIP-890).

Called by the handlers of Produce and TxnOffsetCommit. Questions to one broker within a turn of the loop are sent in one
request, except those about a transactional id that is in it already: they go in further requests.

Apache Kafka has one request under way to a broker and sends one question about each transactional id. Of two that wait
it refuses the one with the lower epoch (47), and the older one of the same epoch (13). Here the coordinator answers
each: it fences the lower epoch itself, an epoch that it never gave does not keep the owner from being answered, and
neither do offsets that a producer commits beside its records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC, add_partitions, verify_partitions
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_LEADER, BrokerId, TopicPartition
from ottla.kernel.story import Slot, run_story
from ottla.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.transactions.decisions import verify
from ottla.transactions.values import Verified

if TYPE_CHECKING:
    from ottla.broker.control.peers import Peers
    from ottla.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from ottla.broker.environment import Environment
    from ottla.metadata.state import Metadata

PURPOSE = "verification"
NOT_THE_OWNER = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Answers by which the asker's id or epoch is not the one that the coordinator gave last."""
_VERSION = 5
_TIMEOUT_MS = 10_000


class Question(NamedTuple):
    """A request to the coordinator. With `adds` partitions join the transaction, else it asks whether they have."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    adds: bool


class Verification:
    """The open questions of this broker."""

    def __init__(self, around: Environment, peers: Peers, transactions: TransactionCoordinator) -> None:
        self._around = around
        self._peers = peers
        self._transactions = transactions
        self._queued: dict[BrokerId, list[tuple[Question, Slot[Verified]]]] = {}

    async def ask(self, question: Question, *, patient: bool = True) -> Verified:
        """Ask the coordinator whether records may be written, by partition.

        With `patient`, wait a little while the transaction before is still ending.
        """
        config = self._around.config
        back_off_ms = config.add_partitions_to_txn_retry_backoff_ms
        until_ms = self._around.clock.mono_ms() + config.add_partitions_to_txn_retry_backoff_max_ms
        while True:
            answer = await self._ask_once(question)
            busy = ErrorCode.CONCURRENT_TRANSACTIONS in answer.values()
            if not (busy and question.adds and patient) or self._around.clock.mono_ms() + back_off_ms > until_ms:
                return answer
            pause: Slot[None] = Slot()
            self._around.deadlines.after(back_off_ms, lambda pause=pause: pause.fill(None))  # type: ignore[misc]
            await pause

    def confirmed(self, question: Question) -> bool:
        """True if the shard is here and says at once that all partitions are in the transaction.

        `ask` finds the same. A client that sends one partition in a request has each looked up, so this costs less.
        """
        transactional_id, producer_id, epoch, partitions, adds = question
        runner = self._transactions.runner_of(transactional_id)
        shard = None if runner is None or adds else runner.settled()
        if shard is None or refuse_missing(self._around.metadata, partitions) is not None:
            return False
        verdict = verify(shard.transactions.get(transactional_id), producer_id, epoch, partitions)
        return not isinstance(verdict, ErrorCode) and not any(verdict.values())

    async def _ask_once(self, question: Question) -> Verified:
        around = self._around
        index = self._transactions.partition_for(question.transactional_id)
        topic = around.metadata.topic(TRANSACTION_TOPIC)
        leader = NO_LEADER if topic is None or index is None else topic.partitions[index].leader
        if leader == NO_LEADER:
            return _all(question.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if leader == around.broker:
            return await self.ask_here(question)
        slot: Slot[Verified] = Slot()
        queue = self._queued.setdefault(leader, [])
        queue.append((question, slot))
        if len(queue) == 1:
            around.clock.call_soon(lambda: self._flush(leader))
        return await slot

    async def ask_here(self, question: Question) -> Verified:
        """Ask the shard here."""
        transactional_id, producer_id, epoch, partitions, adds = question
        refused = refuse_missing(self._around.metadata, partitions)
        if refused is not None:
            return refused
        if not transactional_id:
            return _all(partitions, ErrorCode.INVALID_REQUEST)
        shards = self._transactions
        if adds:
            patience_ms = self._around.config.add_partitions_to_txn_retry_backoff_ms
            error = await add_partitions(
                shards, transactional_id, producer_id, epoch, partitions, bumps=True, patience_ms=patience_ms
            )
            return _all(partitions, error)
        answer = await verify_partitions(shards, transactional_id, producer_id, epoch, partitions)
        return _all(partitions, answer) if isinstance(answer, ErrorCode) else answer

    def _flush(self, broker: BrokerId) -> None:
        """Send waiting questions, each transactional id once in a request: it identifies the answer."""
        rest = self._queued.pop(broker, [])
        while rest:
            batch = {each[0].transactional_id: each for each in reversed(rest)}
            rest = [each for each in rest if batch[each[0].transactional_id] is not each]
            run_story(self._call(broker, list(batch.values())))

    async def _call(self, broker: BrokerId, batch: list[tuple[Question, Slot[Verified]]]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[_transaction(question) for question, _ in batch])
        try:
            answer: AddPartitionsToTxnResponse = await self._peers.call(broker, PURPOSE, request, _VERSION, _TIMEOUT_MS)
        except OSError:
            for question, slot in batch:
                slot.fill(_all(question.partitions, ErrorCode.NETWORK_EXCEPTION))
            return
        answers = {result.transactional_id: result for result in answer.results_by_transaction}
        for question, slot in batch:
            outcome = _all(question.partitions, ErrorCode(answer.error_code) or ErrorCode.NETWORK_EXCEPTION)
            result = None if answer.error_code else answers.get(question.transactional_id)
            for topic in () if result is None else result.topic_results:
                for partition in topic.results_by_partition:
                    place = TopicPartition(topic.name, partition.partition_index)
                    outcome[place] = ErrorCode(partition.partition_error_code)
            slot.fill(outcome)


def refuse_missing(metadata: Metadata, partitions: Iterable[TopicPartition]) -> Verified | None:
    """The answer if the cluster lacks some of the partitions: then none is added."""
    missing = [each for each in sorted(partitions) if not _exists(metadata, each)]
    if not missing:
        return None
    return _all(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | dict.fromkeys(
        missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def _exists(metadata: Metadata, partition: TopicPartition) -> bool:
    topic = metadata.topic(partition.topic)
    return topic is not None and 0 <= partition.partition < len(topic.partitions)


def _all(partitions: Iterable[TopicPartition], error: ErrorCode) -> Verified:
    return dict.fromkeys(sorted(partitions), error)


def _transaction(question: Question) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, index in sorted(question.partitions):
        topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic)).partitions.append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=not question.adds,
        topics=list(topics.values()),
    )
