"""A source as two questions: which partitions are there, and what comes behind a position. All else is done here.

Each partition is asked in its turn, again after `interval_ms` where it had nothing, and later where it failed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.connect.errors import RetriableException
from ottla.connect.plugins.base import Offset, OffsetReader, SourceOffset, SourcePartition, SourceTask
from ottla.connect.records import SourceRecord

_LONGEST_WAIT_S: Final = 60.0
log = logging.getLogger("ottla.connect")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a partition: behind the record that has this offset, or at the beginning if there is none."""

    partition: SourcePartition
    offset: SourceOffset | None


class PollingSource(ABC):
    """The other side, as a polling task asks it. A connector's `task` returns `PollingTask(YourSource(…), …)`."""

    @abstractmethod
    async def partitions(self) -> Collection[SourcePartition]:
        """The parts that have an order of their own. Asked again from time to time: new ones are read too."""

    @abstractmethod
    async def poll(self, position: Position) -> list[SourceRecord]:
        """The next records of a partition, each with its `source_offset`; none if there is nothing now.

        `RetriableException`: the same question may be answered later.
        """

    async def committed(self, offsets: Sequence[Offset]) -> None:  # noqa: B027
        """Learn that all records up to these offsets are in Kafka, and the offsets kept."""

    async def close(self) -> None:  # noqa: B027
        """Give back what the source holds."""


@dataclass(slots=True)
class _Turn:
    position: Position
    due_s: float = 0.0
    failures: int = 0


class PollingTask(SourceTask):
    """Asks a source for ever."""

    def __init__(self, source: PollingSource, *, interval_ms: int, retries: int = 10) -> None:
        """`retries`: how often in a row one partition may fail before the task ends."""
        self._source, self._interval_s, self._retries = source, interval_ms / 1000, retries
        self._turns: dict[str, _Turn] = {}
        self._look_s = 0.0

    async def start(self, offsets: OffsetReader) -> None:
        """Keep the reader of offsets: each partition's own is asked for when the partition is there."""
        self._offsets = offsets

    async def read(self) -> list[SourceRecord]:
        """The next records of the partition that has waited longest."""
        while True:
            if time.monotonic() >= self._look_s:
                await self._look()
            for key, turn in sorted(self._turns.items(), key=lambda each: each[1].due_s):
                if turn.due_s <= time.monotonic() and (records := await self._ask(turn)):
                    self._turns[key] = self._turns.pop(key)
                    return records
            due = min([self._look_s, *(turn.due_s for turn in self._turns.values())])
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def commit(self, offsets: Sequence[Offset]) -> None:
        """Tell the source."""
        await self._source.committed(offsets)

    async def close(self) -> None:
        """Close the source."""
        await self._source.close()

    async def _look(self) -> None:
        """Learn which partitions there are; new ones begin where their kept offsets say."""
        found = {json.dumps(each, sort_keys=True): each for each in await self._source.partitions()}
        new = {key: each for key, each in found.items() if key not in self._turns}
        kept = await self._offsets.read(list(new.values())) if new else []
        for key in [key for key in self._turns if key not in found]:
            del self._turns[key]
        for (key, each), offset in zip(new.items(), kept, strict=True):
            self._turns[key] = _Turn(Position(each, offset))
        self._look_s = time.monotonic() + self._interval_s

    async def _ask(self, turn: _Turn) -> list[SourceRecord]:
        partition = turn.position.partition
        try:
            records = await self._source.poll(turn.position)
        except RetriableException as fault:
            turn.failures += 1
            if turn.failures > self._retries:
                raise
            wait_s = min(_LONGEST_WAIT_S, self._interval_s * 2**turn.failures)
            log.warning("%s: %s; asking again in %.1f s", json.dumps(partition), fault, wait_s)
            turn.due_s = time.monotonic() + wait_s
            return []
        turn.failures = 0
        turn.due_s = time.monotonic() + (0.0 if records else self._interval_s)
        for record in records:
            record.source_partition = dict(partition)
        if records:
            assert records[-1].source_offset is not None, "poll gives each record its source_offset"
            turn.position = Position(partition, records[-1].source_offset)
        return records
