"""Producers of the simulated workload: idempotent ones, which retry until they know the outcome, and plain ones."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from ottla.access.names import ANONYMOUS
from ottla.kernel.errors import ErrorCode
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import build_batch
from ottla.records.compression import Codec
from ottla.records.reader import Record
from ottla.sim.checkers.history import Acknowledged, BatchRefused, DeleteAsked, LogKey, Sent
from ottla.sim.checkers.transaction_history import IdGiven
from ottla.sim.peer import Caller
from ottla.sim.setting import KnownTopic, Setting

_ALL, _LEADER, _NONE = -1, 1, 0
_BY_TOPIC_ID = 13
_MOST_BYTES = 20_000
"""The topics' max.message.bytes: larger batches are refused before they are written."""
_CERTAINLY_NOT = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_TIMEOUT_MS = 1500


class _Batch:
    __slots__ = ("count", "number", "sequence", "values", "wall_ms")

    def __init__(self, number: int, values: tuple[bytes, ...], wall_ms: int, sequence: int = -1) -> None:
        self.number = number
        self.values = values
        self.wall_ms = wall_ms
        self.sequence = sequence


class _Lane:
    """One producer's batches for one log, in order."""

    def __init__(self, topic: KnownTopic, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.log = LogKey(topic.topic_id.hex(), partition)
        self.next_sequence = 0
        self.pending: deque[_Batch] = deque()
        self.known = False
        """True once a first batch is in the log; a log takes any first sequence of an unknown producer, as in Kafka."""
        self.gone = False
        self.answered_to = 0
        """The offset of the last answered batch: batches that wait are above it, if they are in the log."""
        self.overtaken = False
        """True if a batch later than the first waiting one is in the log."""


class Producer:
    def __init__(self, name: str, workload: Setting, caller: Caller = ANONYMOUS) -> None:
        self.name = name
        self.workload = workload
        self.random = Random(f"{name}-{workload.plan.seed}")
        self.peer = workload.peer(name, workload.plan.client_timeout_ms, caller=caller)
        self._numbers = 0
        self._values = 0

    def new_batch(self, sequence: int = -1, *, oversize: bool = False) -> _Batch:
        count = self.random.randint(1, 4)
        values = []
        for _ in range(count):
            self._values += 1
            size = _MOST_BYTES if oversize else self.random.randint(*self.workload.plan.value_bytes)
            values.append(f"{self.name}:{self._values}:".encode().ljust(size, b"."))
        self._numbers += 1
        return _Batch(self._numbers, tuple(values), self.workload.loop.wall_ms(), sequence)

    def sent(self, batch: _Batch, log: LogKey, acks: int, *, idempotent: bool) -> None:
        now_us = self.workload.loop.now_us
        self.workload.saw(Sent(now_us, self.name, log, batch.number, batch.values, acks, idempotent))

    def request(
        self, batch: _Batch, topic: KnownTopic, partition: int, acks: int, producer: tuple[int, int], codec: Codec
    ) -> ProduceRequest:
        records = [Record(at, batch.wall_ms + at, None, value) for at, value in enumerate(batch.values)]
        body = build_batch(
            records, codec=codec, producer_id=producer[0], producer_epoch=producer[1], base_sequence=batch.sequence
        )
        asked = TopicProduceData(
            name=topic.plan.name,
            topic_id=topic.topic_id,
            partition_data=[PartitionProduceData(index=partition, records=body)],
        )
        return ProduceRequest(acks=acks, timeout_ms=_TIMEOUT_MS, topic_data=[asked])

    def version(self, topic: KnownTopic) -> int:
        """The Produce version: one with topic ids, or for topics that are never deleted also one with names."""
        return self.random.choice((_BY_TOPIC_ID, 9, 7)) if topic.plan.stable else _BY_TOPIC_ID

    async def rest(self) -> None:
        await self.peer.sleep_us(self.random.randint(*self.workload.plan.pause_us))

    def answered(self, log: LogKey, batch: _Batch, response: Any, lane: _Lane | None = None) -> ErrorCode | None:
        """Note an answer; None if there was none."""
        if response is None:
            return None
        answer = response.responses[0].partition_responses[0]
        error = ErrorCode(answer.error_code)
        now_us = self.workload.loop.now_us
        if error is ErrorCode.NONE:
            self.workload.saw(Acknowledged(now_us, self.name, log, batch.number, answer.base_offset))
            if lane is not None:
                lane.answered_to = max(lane.answered_to, answer.base_offset)
        return error


class IdempotentProducer(Producer):
    """Uses acks=all, with several batches in flight; each is sent again until its outcome is known."""

    def __init__(self, name: str, workload: Setting) -> None:
        super().__init__(name, workload)
        self._producer = (-1, -1)
        self._lanes: dict[LogKey, _Lane] = {}
        self._codec = self.random.choice((Codec.NONE, Codec.NONE, Codec.LZ4))

    async def run(self) -> None:
        while self._producer[0] < 0:
            response = await self.peer.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
            if response is not None and response.error_code == 0:
                self._producer = (response.producer_id, response.producer_epoch)
                self.workload.saw(IdGiven(self.workload.loop.now_us, self.name, response.producer_id))
            await self.rest()
        while not self.workload.ending:
            lane = self._choose()
            if lane is not None:
                self._fill(lane)
                await self._send_window(lane)
            await self.rest()
        while waiting := [lane for lane in self._lanes.values() if lane.pending and not lane.gone]:
            for lane in waiting:
                await self._send_window(lane)
            await self.rest()

    def _choose(self) -> _Lane | None:
        """Choose a log; none of a cached topic, which may forget acknowledged sequences after a power cut."""
        topic = self.workload.some_topic(self.random, durable=True)
        if topic is None:
            return None
        partition = self.random.randrange(topic.plan.partitions)
        log = LogKey(topic.topic_id.hex(), partition)
        return self._lanes.setdefault(log, _Lane(topic, partition))

    def _fill(self, lane: _Lane) -> None:
        for _ in range(self.random.randint(1, self.workload.plan.window) - len(lane.pending)):
            batch = self.new_batch(lane.next_sequence)
            lane.next_sequence += len(batch.values)
            lane.pending.append(batch)
            self.sent(batch, lane.log, _ALL, idempotent=True)

    async def _send_window(self, lane: _Lane) -> None:
        if lane.topic not in self.workload.topics():
            lane.gone = True  # no leader is left that could tell the outcome
            return
        peer = await self.peer.leader(lane.topic.plan.name, lane.partition)
        if peer is None or not await peer.connect():
            self.peer.forget(lane.topic.plan.name, lane.partition)
            return
        asked = []
        for batch in list(lane.pending)[: None if lane.known else 1]:
            request = self.request(batch, lane.topic, lane.partition, _ALL, self._producer, self._codec)
            asked.append((batch, peer.send(request, most=self.version(lane.topic))))
        for batch, slot in asked:
            error = self.answered(lane.log, batch, await slot, lane)
            if error is ErrorCode.NONE:
                lane.overtaken = lane.pending[0] is not batch
                lane.pending.remove(batch)
                lane.known = True
            elif self._is_hopeless(lane, error):
                lane.gone = True
            else:
                self.peer.forget(lane.topic.plan.name, lane.partition)

    def keeps_from(self, log: LogKey) -> int | None:
        """The offset from which on a log must keep its records, so that it recognizes a batch that is sent again.

        A replica that is made anew, or lacked deleted records, does not know the producers of these records.
        """
        lane = self._lanes.get(log)
        return lane.answered_to if lane is not None and lane.pending and not lane.gone else None

    def _is_hopeless(self, lane: _Lane, error: ErrorCode | None) -> bool:
        """True if the topic is gone, or a batch comes too late as a later one is already in the log."""
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return lane.overtaken and self._may_be_forgotten(lane)
        return error in _GONE and not lane.topic.plan.stable

    def _may_be_forgotten(self, lane: _Lane) -> bool:
        """True if a replica may lead that does not know us: its disk was lost, and our earlier records are deleted.

        Such a replica takes any of our batches as the first, as in Apache Kafka, and the one before it comes too late.
        """
        asked = any(isinstance(event, DeleteAsked) and event.log == lane.log for event in self.workload.history.events)
        return asked and "lost disk" in self.workload.plan.faults


class PlainProducer(Producer):
    """Uses acks 0, 1 or all; an unanswered batch is not sent again."""

    async def run(self) -> None:
        while not self.workload.ending:
            topic = self.workload.some_topic(self.random)
            if topic is not None:
                await self._send_one(topic)
            await self.rest()

    async def _send_one(self, topic: KnownTopic) -> None:
        if self.peer.alone and not await self.peer.some.connect():
            return
        partition = self.random.randrange(topic.plan.partitions)
        peer = await self.peer.leader(topic.plan.name, partition)
        if peer is None or not await peer.connect():
            self.peer.forget(topic.plan.name, partition)
            return
        acks = self.random.choice((_ALL, _ALL, _LEADER, _NONE))
        log = LogKey(topic.topic_id.hex(), partition)
        batch = self.new_batch(oversize=acks != _NONE and self.random.random() < 0.03)
        self.sent(batch, log, acks, idempotent=False)
        request = self.request(batch, topic, partition, acks, (-1, -1), Codec.NONE)
        slot = peer.send(request, most=self.version(topic), answered=acks != _NONE)
        response = await slot
        if acks != _NONE:
            error = self.answered(log, batch, response)
            if error is not ErrorCode.NONE:
                self.peer.forget(topic.plan.name, partition)
            if error in _CERTAINLY_NOT:
                now_us = self.workload.loop.now_us
                self.workload.saw(BatchRefused(now_us, self.name, log, batch.number, int(error)))


class Prober(Producer):
    """After the end of the faults: writes to every partition until each write is acknowledged."""

    async def probe(self, topic: KnownTopic, partition: int) -> bool:
        peer = await self.peer.leader(topic.plan.name, partition)
        if peer is None:
            return False
        log = LogKey(topic.topic_id.hex(), partition)
        batch = self.new_batch()
        self.sent(batch, log, _ALL, idempotent=False)
        request = self.request(batch, topic, partition, _ALL, (-1, -1), Codec.NONE)
        response = await peer.ask(request, most=_BY_TOPIC_ID)
        if self.answered(log, batch, response) is ErrorCode.NONE:
            return True
        self.peer.forget(topic.plan.name, partition)
        return False
