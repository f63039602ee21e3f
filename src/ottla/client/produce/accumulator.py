"""Gathers a producer's records into batches per partition and says which may leave. Pure: time comes as `now_ms`.

One batch of a partition is under way at a time, so order and sequences hold through any retry.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.client.model import Header, Produced, ProducerIdentity
from ottla.client.produce.settings import ProducerSettings
from ottla.client.settings import INT32_MAX
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import Batch
from ottla.records.builder import BatchBuilder, estimate_size
from ottla.records.reader import Record, read_records

_SEQUENCES = 2**31


class OutgoingBatch:
    """One batch: first being filled, then waiting or under way, at last delivered or failed (`outcome`)."""

    __slots__ = (
        "_outcome",
        "_told",
        "attempts",
        "builder",
        "created_ms",
        "faults",
        "frame",
        "identity",
        "listeners",
        "partition",
        "parts",
        "retry_at_ms",
        "sealed",
        "sequence",
        "under_way",
    )

    def __init__(
        self,
        partition: TopicPartition,
        builder: BatchBuilder,
        created_ms: float,
        faults: Mapping[TopicPartition, Exception],
    ) -> None:
        """`faults` are those of the accumulator: the last error of each partition."""
        self.partition = partition
        self.faults = faults
        self.builder = builder
        self.created_ms = created_ms
        self.sealed = False
        self.under_way = False
        self.attempts = 0
        self.retry_at_ms = 0.0
        self.identity: ProducerIdentity | None = None
        self.sequence = -1
        self.frame: bytes | None = None
        self._outcome: Produced | Exception | None = None
        self.listeners: list[Callable[[], None]] = []
        self._told = False
        self.parts: Sequence[OutgoingBatch] = ()
        """The batches that took this one's place, as it was too large for the topic. The last one ends last."""

    @property
    def outcome(self) -> Produced | Exception | None:
        """None until the batch, with all its parts, is delivered or has failed."""
        return self.parts[-1].outcome if self.parts else self._outcome

    @outcome.setter
    def outcome(self, found: Produced | Exception) -> None:
        self._outcome = found

    @property
    def told(self) -> bool:
        """True once the listeners have been called."""
        return self.parts[-1].told if self.parts else self._told

    @told.setter
    def told(self, told: bool) -> None:
        self._told = told

    @property
    def last_fault(self) -> str:
        """Completes a sentence by the last error of this batch, or of one before it; empty where there was none."""
        fault = self.faults.get(self.partition)
        return "" if fault is None else f"; the last error: {str(fault).rstrip('.')}"

    @property
    def was_sent(self) -> bool:
        """True if the batch has used up a sequence of its partition, so that the broker may hold it."""
        return self.sequence >= 0


class Delivered(NamedTuple):
    """The place of a record in the log; offset -1 with acks=0.

    `timestamp` is the producer's, or the broker's where the topic has `message.timestamp.type=LogAppendTime`.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class BatchPlace(NamedTuple):
    """A record's place in an outgoing batch."""

    batch: OutgoingBatch
    delta: int
    timestamp: int

    @property
    def final(self) -> BatchPlace:
        """The place in the part that has the record, where the batch was split."""
        batch, delta = self.batch, self.delta
        while batch.parts:
            for part in batch.parts:
                if delta < part.builder.records_count:
                    batch = part
                    break
                delta -= part.builder.records_count
        return self if batch is self.batch else BatchPlace(batch, delta, self.timestamp)

    @property
    def outcome(self) -> Produced | Exception | None:
        """The outcome of the batch that has the record; None until there is one."""
        return self.final.batch.outcome

    def delivered(self) -> Delivered:
        """The record's place in the log; raises the error of a failure. Only once the batch has its outcome."""
        batch, delta, timestamp = self.final
        outcome = batch.outcome
        assert outcome is not None
        if isinstance(outcome, Exception):
            raise outcome
        offset = outcome.base_offset + delta if outcome.base_offset >= 0 else -1
        logged = outcome.timestamp if outcome.timestamp >= 0 else timestamp
        return Delivered(batch.partition.topic, batch.partition.partition, offset, logged)


class Accumulator:
    """The batches of one producer that have no outcome yet."""

    def __init__(self, settings: ProducerSettings, pick: Callable[[int], int] = random.randrange) -> None:
        """`pick(n)` chooses one of n partitions for records without a key."""
        self.settings = settings
        self._pick = pick
        self.waiting_bytes = 0
        self._queues: dict[TopicPartition, deque[OutgoingBatch]] = {}
        self._sticky: dict[str, int] = {}
        self._identities: dict[TopicPartition, ProducerIdentity] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._most_bytes: dict[str, int] = {}
        """Half the size of the last batch that a topic refused as too large."""
        self._faults: dict[TopicPartition, Exception] = {}
        """The last error of each partition whose batches are tried again, until one is delivered."""

    @property
    def unfinished(self) -> list[OutgoingBatch]:
        """The batches without an outcome, those of one partition in the order of their offsets."""
        return [batch for queue in self._queues.values() for batch in queue]

    def has_room(self, size: int) -> bool:
        """True if a record of this size may be taken now; one always may."""
        return not self._queues or self.waiting_bytes + size <= self.settings.buffer_memory

    def why_full(self) -> str:
        """Completes the sentence that there is no room: how much waits, and the last error if there was one."""
        why = next((batch.last_fault for batch in self.unfinished if batch.last_fault), "")
        held = f"{self.waiting_bytes} bytes wait, buffer_memory is {self.settings.buffer_memory}"
        return f"{held}{why or '; the broker takes records too slowly'}"

    def choose(self, topic: str, key: bytes | None, available: Sequence[int], count: int) -> int:
        """The partition of a record; those without a key stay with one partition for a batch (KIP-480)."""
        chosen = self.settings.partitioner(key, available, count)
        if chosen is not None:
            return chosen
        sticky = self._sticky.get(topic)
        if sticky is None or sticky not in available:
            places = available or range(count)
            sticky = self._sticky[topic] = places[self._pick(len(places))]
        return sticky

    def append(
        self,
        partition: TopicPartition,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        *,
        now_ms: float,
        most: int | None = None,
    ) -> BatchPlace:
        """Put a record into the partition's open batch, or into a new one; ValueError for an impossible timestamp.

        `most` is the record's `record_size`, where the caller knows it.
        """
        if not 0 <= timestamp < 1 << 63:
            raise ValueError(f"timestamp {timestamp} is not a number of milliseconds since 1970")
        queue = self._queues.get(partition)
        batch = queue[-1] if queue and not queue[-1].sealed else None
        before = batch.builder.size if batch is not None else 0
        if batch is None or not batch.builder.add(timestamp, key, value, headers, most=most):
            if batch is not None:
                self._seal(batch)
            builder = self._builder(partition.topic)
            before = 0
            builder.add(timestamp, key, value, headers)
            batch = OutgoingBatch(partition, builder, now_ms, self._faults)
            queue = deque() if queue is None else queue
            queue.append(batch)  # with its first record: a signal's handler may raise before
            self._queues[partition] = queue
        size = batch.builder.size
        self.waiting_bytes += size - before
        if size >= batch.builder.max_bytes:
            self._seal(batch)
        return BatchPlace(batch, batch.builder.records_count - 1, timestamp)

    def append_run(
        self,
        partition: TopicPartition,
        timestamps: int | list[int],
        keys: bytes | list[bytes | None] | None,
        values: list[bytes | None],
        headers: Sequence[Header],
        *,
        start: int,
        now_ms: float,
    ) -> tuple[OutgoingBatch, int]:
        """Put records from `start` on into the partition's open batch, or into a new one, as many as fit.

        The batch and the number of records; at least one. The timestamps must be possible ones.
        """
        queue = self._queues.get(partition, deque())
        batch = queue[-1] if queue and not queue[-1].sealed else None
        before = batch.builder.size if batch is not None else 0
        count = batch.builder.add_run(timestamps, keys, values, headers, start=start) if batch is not None else 0
        if batch is None or not count:
            if batch is not None:
                self._seal(batch)
            batch = OutgoingBatch(partition, self._builder(partition.topic), now_ms, self._faults)
            before = 0
            count = batch.builder.add_run(timestamps, keys, values, headers, start=start)
            queue.append(batch)  # with its records: a signal's handler may raise before
            self._queues[partition] = queue
        self.waiting_bytes += batch.builder.size - before
        if batch.builder.size >= batch.builder.max_bytes or start + count < len(values):
            self._seal(batch)
        return batch, count

    def ready(
        self, now_ms: float, *, flush: bool = False, free: Callable[[OutgoingBatch], bool] = lambda _: True
    ) -> list[OutgoingBatch]:
        """The batches that may leave now and are `free`, at most one per partition; sealed and marked as under way."""
        found = []
        for queue in self._queues.values():
            batch = queue[0]
            if self._ready_at(batch, len(queue), flush=flush) <= now_ms and free(batch):
                self._seal(batch)
                batch.under_way = True
                found.append(batch)
        return found

    def next_ready_ms(self, *, flush: bool = False, free: Callable[[OutgoingBatch], bool] = lambda _: True) -> float:
        """The time at which `ready` will have something, as far as is known; infinity where nothing waits."""
        soonest = float("inf")
        for queue in self._queues.values():
            ready_ms = self._ready_at(queue[0], len(queue), flush=flush)
            if ready_ms < soonest and free(queue[0]):
                soonest = ready_ms
        return soonest

    def first(self, partition: TopicPartition) -> OutgoingBatch | None:
        """The partition's batch that leaves next, or is under way."""
        queue = self._queues.get(partition)
        return queue[0] if queue else None

    def needs_identity(self, batch: OutgoingBatch) -> bool:
        return self.settings.idempotent and batch.identity is None and batch.partition not in self._identities

    def identify(self, partition: TopicPartition, identity: ProducerIdentity) -> None:
        """Let the partition's batches use this producer id from now on, from sequence 0."""
        self._identities[partition] = identity
        self._sequences[partition] = 0

    def frame(self, batch: OutgoingBatch) -> bytes:
        """The batch's bytes: built once, with the sequence that it keeps through every retry."""
        if batch.frame is None:
            identity = self._identities.get(batch.partition) if self.settings.idempotent else None
            if identity is None:
                batch.frame = batch.builder.build()
            else:
                batch.identity = identity
                batch.sequence = self._sequences[batch.partition]
                batch.frame = batch.builder.build(
                    producer_id=identity.producer_id,
                    producer_epoch=identity.producer_epoch,
                    base_sequence=batch.sequence,
                    is_transactional=self.settings.transactional_id is not None,
                )
                self._sequences[batch.partition] = (batch.sequence + batch.builder.records_count) % _SEQUENCES
        return batch.frame

    def put_back(self, batch: OutgoingBatch) -> None:
        """Let a batch that was not sent wait again, first of its partition."""
        batch.under_way = False

    def again(
        self, batch: OutgoingBatch, retry_at_ms: float, fault: Exception, *, fresh_identity: bool = False
    ) -> None:
        """Keep the batch first of its partition, to be sent again; `fresh_identity`: the broker forgot the producer."""
        batch.under_way = False
        self._faults[batch.partition] = fault
        batch.attempts += 1
        batch.retry_at_ms = retry_at_ms
        if fresh_identity:
            batch.frame = batch.identity = None
            batch.sequence = -1
            self._identities.pop(batch.partition, None)

    def split(self, batch: OutgoingBatch) -> None:
        """Put two halves in the place of a batch that was refused as too large, and make smaller ones from now on.

        Nothing of it was appended, so the halves have its sequences.
        """
        records = list(read_records(Batch(self.frame(batch))))
        middle = len(records) // 2
        queue = self._queues[batch.partition]
        assert queue[0] is batch
        queue.popleft()
        batch.parts = [self._part(batch, records[:middle]), self._part(batch, records[middle:])]
        batch.parts[-1].listeners, batch.listeners = batch.listeners, []
        queue.extendleft(reversed(batch.parts))
        self.waiting_bytes += sum(part.builder.size for part in batch.parts) - batch.builder.size
        self._most_bytes[batch.partition.topic] = max(batch.builder.size // 2, 1)
        if batch.was_sent:
            self._sequences[batch.partition] = batch.sequence
        batch.frame = None

    def _part(self, batch: OutgoingBatch, records: Sequence[Record]) -> OutgoingBatch:
        builder = BatchBuilder(codec=batch.builder.codec, level=batch.builder.level)
        for record in records:
            builder.add(record.timestamp, record.key, record.value, record.headers)
        part = OutgoingBatch(batch.partition, builder, batch.created_ms, self._faults)
        part.sealed = True
        return part

    def finish(self, batch: OutgoingBatch, outcome: Produced | Exception) -> None:
        """Note the batch's outcome. If it was sent and failed, its partition goes on under another producer id.

        Nobody knows whether the batch is in the log, so its sequence can be neither used again nor skipped.
        """
        queue = self._queues[batch.partition]
        assert queue[0] is batch
        queue.popleft()
        if not queue:
            del self._queues[batch.partition]
            self._faults.pop(batch.partition, None)
        self.waiting_bytes -= batch.builder.size
        if not isinstance(outcome, Exception):
            self._faults.pop(batch.partition, None)
        elif batch.was_sent:
            self._identities.pop(batch.partition, None)
        batch.outcome = outcome
        batch.frame = None

    def expired(self, now_ms: float) -> list[OutgoingBatch]:
        """The batches that wait and whose delivery time is over, those of one partition in the order of their offsets.

        None of a partition whose first batch is under way: the others finish after it.
        """
        found = []
        for queue in self._queues.values():
            for batch in queue:
                if batch.under_way or now_ms < batch.created_ms + self.settings.delivery_timeout_ms:
                    break
                found.append(batch)
        return found

    def drop_waiting(self, fault: Exception) -> list[OutgoingBatch]:
        """Fail every batch that is not under way; those, so that listeners can be told."""
        dropped = []
        for queue in list(self._queues.values()):
            kept = [queue.popleft()] if queue[0].under_way else []
            dropped += list(queue)
            while queue:
                self.finish(queue[0], fault)
            if kept:
                self._queues[kept[0].partition] = deque(kept)
        return dropped

    def renew(self, identity: ProducerIdentity) -> None:
        """Let all partitions use this producer id and epoch. If the id is another, their sequences start at 0."""
        stale = [partition for partition, known in self._identities.items() if known != identity]
        for partition in stale:
            del self._identities[partition]

    def abandon(self, fault: Exception) -> list[OutgoingBatch]:
        """Fail everything that waits; the batches, so that listeners can be told."""
        batches = self.unfinished
        for batch in batches:
            self.finish(batch, fault)
        return batches

    def _builder(self, topic: str) -> BatchBuilder:
        return BatchBuilder(
            codec=self.settings.compression,
            level=self.settings.compression_level,
            max_bytes=min(self.settings.full_batch_bytes, self._most_bytes.get(topic, INT32_MAX)),
        )

    def _seal(self, batch: OutgoingBatch) -> None:
        if not batch.sealed:
            batch.sealed = True
            self._sticky.pop(batch.partition.topic, None)

    def _ready_at(self, batch: OutgoingBatch, queued: int, *, flush: bool) -> float:
        if batch.under_way:
            return float("inf")
        if batch.sealed or queued > 1 or flush:
            return batch.retry_at_ms
        return max(batch.retry_at_ms, batch.created_ms + self.settings.linger_ms)


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """The most bytes that a record takes of `buffer_memory`."""
    return estimate_size(key, value, headers)
