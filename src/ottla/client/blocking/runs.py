"""Many records at a time: to and from batches, with few steps in Python for each."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.produce.accumulator import BatchPlace, Delivered, OutgoingBatch
from ottla.client.produce.run import Run
from ottla.kernel.ids import TopicPartition
from ottla.records.reader import Record


class RunDelivery:
    """The outcome of the records of a run that went into one batch, once they have it."""

    __slots__ = ("_batch", "_changed", "_first", "_start", "_timestamps", "count")

    def __init__(
        self,
        batch: OutgoingBatch,
        count: int,
        timestamps: int | Sequence[int],
        start: int,
        changed: threading.Condition,
    ) -> None:
        """`start`: the place in the run of the first of these records; with the lock held."""
        self._batch = batch
        self._first = batch.builder.records_count - count
        self._timestamps = timestamps
        self._start = start
        self._changed = changed
        self.count = count

    @property
    def done(self) -> bool:
        """True once the records are delivered or have failed; `result` then returns or raises at once."""
        return self._batch.outcome is not None

    @property
    def partition(self) -> int:
        return self._batch.partition.partition

    def result(self) -> Iterator[Delivered]:
        """Wait for the records' places in the log, one after the other; raises their error if they failed."""
        with self._changed:
            self._changed.wait_for(lambda: self.done)
        if isinstance(self._batch.outcome, Exception):
            raise self._batch.outcome
        return map(self._delivered, range(self.count))

    def _delivered(self, index: int) -> Delivered:
        own = self._timestamps if isinstance(self._timestamps, int) else self._timestamps[self._start + index]
        return BatchPlace(self._batch, self._first + index, own).delivered()


class RunConsumer(Consumer):
    """A consumer that hands out the records of a batch in one list."""

    def poll_runs(self, timeout_ms: float) -> list[tuple[TopicPartition, list[Record]]]:
        """As `poll` does; the records are not counted. Not beside `poll`."""
        return self.cluster.run(self.core.poll_runs(timeout_ms))


class RunProducer(Producer):
    """A producer that takes runs of records, too."""

    def produce_run(self, topic: str, run: Run) -> Iterator[RunDelivery]:
        """Take the records of a run as `produce` takes one; each part of them that went into one batch is yielded.

        Records with keys of their own share a partition only where `run.partition` says so. Blocks and raises as
        `produce` does.
        """
        run.check()
        assert run.partition is not None or not isinstance(run.keys, list)
        timestamps = int(time.time() * 1000) if run.timestamps is None else run.timestamps
        self._sender.require_open()
        available, count = self.partitions_of(topic, run.partition)
        start, size = 0, min(run.size, self.producer_settings.buffer_memory)
        while start < len(run.values):
            with self._changed:
                self._wait_for_room(0 if start else size)
                self._sender.require_open()
                partition = run.partition
                if partition is None:
                    assert not isinstance(run.keys, list)
                    partition = self._accumulator.choose(topic, run.keys, available, count)
                batch, taken = self._accumulator.append_run(
                    TopicPartition(topic, partition),
                    timestamps,
                    run.keys,
                    run.values,
                    run.headers,
                    start=start,
                    now_ms=self.cluster.plan.now_ms(),
                )
                delivery = RunDelivery(batch, taken, timestamps, start, self._changed)
                if self._sender.may_begin(batch.partition):
                    self._rouse()
            yield delivery
            start += taken

    def partitions_of(self, topic: str, partition: int | None = None) -> tuple[Sequence[int], int]:
        """The topic's partitions with a leader, and how many it has; ValueError if it has none of this number."""
        known = self._sender.known_partitions(topic, partition)
        available, count = known or self.cluster.run(self._sender.find_partitions(topic, partition))
        if partition is not None and not 0 <= partition < count:
            raise ValueError(f"topic {topic!r} has no partition {partition}: it has {count}")
        return available, count

    def choose_partition(self, topic: str, key: bytes | None) -> int:
        """The partition that the partitioner of the settings chooses for a record with this key."""
        available, count = self.partitions_of(topic)
        with self._changed:
            return self._accumulator.choose(topic, key, available, count)
