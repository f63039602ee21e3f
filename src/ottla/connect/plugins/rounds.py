"""A sink as rounds: records are put, then a commit makes them durable together with the offsets behind them.

A target that keeps those offsets in the same commit, and gives them back as its progress, gets each record once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ottla.connect.plugins.base import RefusedRecords, SinkTask
from ottla.connect.records import SinkRecord
from ottla.kernel.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Round:
    """All records that were put since the last commit."""

    offsets: Mapping[TopicPartition, int]
    """The next offset of each partition that had records in this round."""
    records: int


class RoundSink(ABC):
    """The other side, as a task of rounds writes to it. A connector's `task` returns `RoundTask(YourSink(…))`."""

    async def open(self, partitions: Collection[TopicPartition]) -> None:  # noqa: B027
        """Learn which partitions come next. What was put before is committed by then, or is not to be written."""

    @abstractmethod
    async def put(self, batch: list[SinkRecord]) -> None:
        """Take records of this round. `RefusedRecords`: all but these; `RetriableException`: put all again later."""

    @abstractmethod
    async def commit(self, done: Round) -> None:
        """Make the round durable, with its offsets if the target can keep them."""

    async def progress(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The next offsets that the target has kept. Records before them are not put again."""
        return {}

    async def close(self) -> None:  # noqa: B027
        """Give back what the sink holds. A round that is not committed comes again."""


class RoundTask(SinkTask):
    """Gathers rounds for a sink."""

    def __init__(self, sink: RoundSink) -> None:
        self._sink = sink
        self._open: set[TopicPartition] = set()
        self._next: dict[TopicPartition, int] = {}
        self._kept: dict[TopicPartition, int] = {}
        self._records = 0

    async def open(self, partitions: Collection[TopicPartition]) -> None:
        """End the round, and ask the sink how far it is in partitions that are new."""
        await self.flush()
        new = set(partitions) - self._open
        self._kept = {each: offset for each, offset in self._kept.items() if each in partitions}
        await self._sink.open(partitions)
        if new:
            self._kept |= {each: at for each, at in (await self._sink.progress(new)).items() if each in new}
        self._open = set(partitions)

    async def put(self, records: list[SinkRecord]) -> None:
        """Hand over the records that the target does not have."""
        wanted = [each for each in records if each.offset >= self._kept.get(place_of(each), 0)]
        try:
            if wanted:
                await self._sink.put(wanted)
        except RefusedRecords as fault:
            self._note(wanted, refused=len(fault.refused))
            raise
        self._note(wanted, refused=0)

    async def flush(self) -> None:
        """End the round. All that was put is committed then."""
        if self._next:
            await self._sink.commit(Round(dict(self._next), self._records))
        self._kept |= self._next
        self._next, self._records = {}, 0

    async def close(self) -> None:
        """Close the sink."""
        await self._sink.close()

    def _note(self, records: list[SinkRecord], *, refused: int) -> None:
        for record in records:
            self._next[place_of(record)] = record.offset + 1
        self._records += len(records) - refused


def place_of(record: SinkRecord) -> TopicPartition:
    """The partition of Kafka that a record came from."""
    return TopicPartition(record.original_topic or record.topic, record.original_partition or 0)
