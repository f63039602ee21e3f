"""A transactional producer of the simulated workload: the requests of one owner of a transactional id, and the answers.

transaction_producers.py decides what such a producer does. With version 1 it adds partitions itself and has one epoch
for all its transactions; with version 2 the brokers add them, and each transaction has its own epoch (KIP-890).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.errors import UnsupportedVersion
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.messages.end_txn import EndTxnRequest
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.sim.checkers.history import LogKey
from ottla.sim.checkers.transaction_history import EndAsked, EndTxnAnswered, OffsetsPut, Owned, Put, PutDone
from ottla.sim.seats import NO_MEMBER, Membership

if TYPE_CHECKING:
    from ottla.sim.peer import Peer, Peers
    from ottla.sim.setting import KnownTopic, Setting

_GROUP, _TRANSACTION = 0, 1
"""Key types of FindCoordinator."""
_AGAIN_US = (5_000, 40_000)
_PRODUCE_TIMEOUT_MS = 1500
_TRIES = 8
"""The number of tries of a request within a transaction before the transaction is aborted."""
_NO_PRODUCER = (-1, -1)
_OTHER_OWNER = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class Verdict(Enum):
    """The fate of a request."""

    DONE = "done"
    GIVEN_UP = "given up"
    """Perhaps not done: the transaction must not be committed."""
    FENCED = "fenced"
    """Another producer has a newer epoch."""


class Versions(NamedTuple):
    """The newest version of each API that a producer speaks."""

    bumps: bool
    produce: int
    add_offsets: int
    offset_commit: int
    end: int


VERSION_2 = Versions(True, 13, 4, 5, 5)
VERSION_1 = (Versions(False, 11, 4, 4, 4), Versions(False, 9, 3, 3, 3), Versions(False, 7, 1, 2, 1))


class _Batch(NamedTuple):
    sequence: int
    values: tuple[bytes, ...]


class TransactionClient:
    """One process that owns, or has owned, a transactional id. `transaction` is the name of the one that is open."""

    def __init__(
        self, name: str, transactional_id: str, workload: Setting, versions: Versions, timeout_ms: int
    ) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self.workload = workload
        self.versions = versions
        self.timeout_ms = timeout_ms
        self.random = Random(f"{name}-{workload.plan.seed}")
        self.peer: Peers = workload.peer(name, workload.plan.client_timeout_ms)
        self.transaction = ""
        self.producer = _NO_PRODUCER
        self.in_doubt = False
        """True if a request of this epoch was not answered, and may still arrive."""
        self._coordinators: dict[tuple[int, str], Peer] = {}
        self._sequences: dict[LogKey, int] = {}
        self._numbers = 0

    @property
    def now_us(self) -> int:
        return self.workload.loop.now_us

    # --- epochs ---

    async def own(self) -> Verdict:
        """Send InitProducerId, at first or to get another epoch; FENCED if another producer took over meanwhile."""
        while True:
            producer_id, epoch = self.producer
            answer = await self._ask_coordinator(
                InitProducerIdRequest(
                    transactional_id=self.transactional_id,
                    transaction_timeout_ms=self.timeout_ms,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                ),
            )
            error = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
            if error is ErrorCode.NONE:
                self._owns((answer.producer_id, answer.producer_epoch), takes_over=True)
                self.in_doubt = False
                return Verdict.DONE
            if error in _OTHER_OWNER:
                return Verdict.FENCED
            await self.pause()

    def _owns(self, producer: tuple[int, int], *, takes_over: bool) -> None:
        self.producer = producer
        self._sequences = {}
        self.workload.saw(Owned(self.now_us, self.name, self.transactional_id, *producer, takes_over))

    # --- one transaction ---

    def begin(self) -> None:
        self._numbers += 1
        self.transaction = f"{self.name}:{self._numbers}"

    async def add(self, places: Sequence[tuple[KnownTopic, int]]) -> Verdict:
        """Send AddPartitionsToTxn, which version 2 leaves to the brokers."""
        if self.versions.bumps:
            return Verdict.DONE
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, partition in places:
            name = topic.plan.name
            topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(partition)
        producer_id, epoch = self.producer
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=list(topics.values()),
        )
        return await self._insist(request, most=3, errors_of=_added)

    async def put(self, topic: KnownTopic, partition: int, batches: Sequence[tuple[bytes, ...]]) -> Verdict:
        """Send several batches for one partition at once, and again until each is acknowledged."""
        log = LogKey(topic.topic_id.hex(), partition)
        waiting = []
        for values in batches:
            sequence = self._sequences.get(log, 0)
            self._sequences[log] = sequence + len(values)
            waiting.append(_Batch(sequence, values))
            self.workload.saw(
                Put(self.now_us, self.name, self.transactional_id, self.transaction, log, values)
            )  # fmt: skip
        for _ in range(_TRIES):
            verdict = await self._send(topic, log, waiting)
            if verdict is not None:
                return verdict
            await self.pause()
        return Verdict.GIVEN_UP

    async def _send(self, topic: KnownTopic, log: LogKey, waiting: list[_Batch]) -> Verdict | None:
        """Send all waiting batches once; None if they are to be sent again."""
        name = topic.plan.name
        peer = await self.peer.leader(name, log.partition)
        if peer is None or not await peer.connect():
            self.peer.forget(name, log.partition)
            return None
        asked = [(batch, self._produce(peer, topic, log.partition, batch)) for batch in waiting]
        for batch, slot in asked:
            response = None if slot is None else await slot
            if response is None:
                self.in_doubt = True
                self.peer.forget(name, log.partition)
                continue
            part = response.responses[0].partition_responses[0]
            error = ErrorCode(part.error_code)
            if error is ErrorCode.NONE:
                waiting.remove(batch)
                self.workload.saw(PutDone(self.now_us, self.transaction, log, batch.values, part.base_offset))
            elif error in _OTHER_OWNER:
                return Verdict.FENCED
            elif error.retriable or error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self.in_doubt = self.in_doubt or error is ErrorCode.REQUEST_TIMED_OUT
                self.peer.forget(name, log.partition)
            else:
                return Verdict.GIVEN_UP
        return None if waiting else Verdict.DONE

    def _produce(self, peer: Peer, topic: KnownTopic, partition: int, batch: _Batch) -> Any:
        wall_ms = self.workload.loop.wall_ms()
        records = [Record(at, wall_ms + at, None, value) for at, value in enumerate(batch.values)]
        producer_id, epoch = self.producer
        body = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=batch.sequence,
            is_transactional=True,
        )
        placed = [PartitionProduceData(index=partition, records=body)]
        asked = TopicProduceData(name=topic.plan.name, topic_id=topic.topic_id, partition_data=placed)
        request = ProduceRequest(
            transactional_id=self.transactional_id, acks=-1, timeout_ms=_PRODUCE_TIMEOUT_MS, topic_data=[asked]
        )
        return peer.send(request, most=self.versions.produce) if peer.connected else None

    async def put_offsets(
        self,
        group: str,
        topic: KnownTopic,
        moves: dict[int, tuple[int, int]],
        membership: Membership = NO_MEMBER,
    ) -> Verdict:
        """Commit offsets that the transaction consumes: by partition, the offset before and the new one."""
        for partition, (before, offset) in moves.items():
            log = LogKey(topic.topic_id.hex(), partition)
            self.workload.saw(OffsetsPut(self.now_us, self.transaction, group, log, before, offset))
        offsets = {partition: offset for partition, (_, offset) in moves.items()}
        return await self.commit_offsets(group, topic.plan.name, offsets, membership)

    async def commit_offsets(
        self, group: str, topic: str, offsets: dict[int, int], membership: Membership = NO_MEMBER
    ) -> Verdict:
        """Send TxnOffsetCommit with these offsets by partition, without a note in the history."""
        producer_id, epoch = self.producer
        if not self.versions.bumps:
            verdict = await self._insist(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    group_id=group,
                ),
                most=self.versions.add_offsets,
                errors_of=_single,
            )
            if verdict is not Verdict.DONE:
                return verdict
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
            for partition, offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            member_id=membership.member_id,
            generation_id=membership.generation,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
        )
        most = self.versions.offset_commit
        return await self._insist(request, most=most, errors_of=_offsets_committed, key=(_GROUP, group))

    async def end(self, *, committed: bool) -> Verdict:
        """Send EndTxn until it is answered; the outcome of the transaction is known only if this is DONE."""
        self.workload.saw(EndAsked(self.now_us, self.transaction, committed))
        request = self.ending(committed=committed)
        while True:
            answer = await self._ask_coordinator(request, most=self.versions.end)
            error = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
            if error is ErrorCode.NONE:
                self.workload.saw(EndTxnAnswered(self.now_us, self.transaction, committed))
                if self.versions.bumps:
                    self._owns((answer.producer_id, answer.producer_epoch), takes_over=False)
                    self.in_doubt = False
                return Verdict.DONE
            if error in _OTHER_OWNER:
                return Verdict.FENCED
            if not error.retriable:
                return Verdict.GIVEN_UP
            await self.pause()

    def ending(self, *, committed: bool) -> EndTxnRequest:
        """The EndTxn request of the open transaction."""
        producer_id, epoch = self.producer
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )

    async def say_again(self, request: EndTxnRequest) -> Any:
        """Send an answered EndTxn once more; return the answer, or None without one."""
        return await self._ask_coordinator(request, most=self.versions.end)

    # --- asking ---

    async def ask_group(self, group: str, request: Any, *, most: int) -> Any:
        """Ask a group's coordinator; return the answer, or None without one."""
        return await self._ask_coordinator(request, most=most, key=(_GROUP, group))

    def forget_group(self, group: str) -> None:
        self._coordinators.pop((_GROUP, group), None)

    async def pause(self) -> None:
        await self.peer.sleep_us(self.random.randint(*_AGAIN_US))

    async def _insist(self, request: Any, *, most: int, errors_of: Any, key: tuple[int, str] | None = None) -> Verdict:
        for _ in range(_TRIES):
            answer = await self._ask_coordinator(request, most=most, key=key)
            errors = {ErrorCode.NETWORK_EXCEPTION} if answer is None else errors_of(answer)
            if not errors:
                return Verdict.DONE
            if errors.intersection(_OTHER_OWNER):
                return Verdict.FENCED
            if not all(error.retriable for error in errors):
                return Verdict.GIVEN_UP
            self._coordinators.pop(key or self._own_key, None)
            await self.pause()
        return Verdict.GIVEN_UP

    @property
    def _own_key(self) -> tuple[int, str]:
        return (_TRANSACTION, self.transactional_id)

    async def _ask_coordinator(self, request: Any, *, most: int = 32767, key: tuple[int, str] | None = None) -> Any:
        """Ask the coordinator of our transactional id, or of a group; return the answer, or None without one."""
        key = key or self._own_key
        try:
            peer = self._coordinators.get(key) or await self.find(key)
            answer = None if peer is None else await peer.ask(request, most=most)
        except UnsupportedVersion:  # the cluster does not support transactions yet
            self.peer.close()
            return None
        if answer is None:
            self.in_doubt = self.in_doubt or peer is not None
        if answer is None or getattr(answer, "error_code", None):
            self._coordinators.pop(key, None)
        return answer

    async def find(self, key: tuple[int, str]) -> Peer | None:
        kind, name = key
        response = await self.peer.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[name]))
        if response is None or response.coordinators[0].error_code:
            return None
        found = self.peer.by_broker.get(BrokerId(response.coordinators[0].node_id))
        if found is not None:
            self._coordinators[key] = found
        return found


def _added(answer: Any) -> set[ErrorCode]:
    return {
        ErrorCode(partition.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    } - {ErrorCode.NONE}


def _single(answer: Any) -> set[ErrorCode]:
    return {ErrorCode(answer.error_code)} - {ErrorCode.NONE}


def _offsets_committed(answer: Any) -> set[ErrorCode]:
    return {ErrorCode(partition.error_code) for topic in answer.topics for partition in topic.partitions} - {
        ErrorCode.NONE
    }
