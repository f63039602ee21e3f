"""Reads a topic in pieces, from the oldest record on or from the newest back, one fetch at a time.

Bounded in memory by one piece, in its share of the broker by one fetch in flight. A place that cannot be read is said.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from ottla.client.aio.cluster import Cluster
from ottla.client.consume.received import visible_batches
from ottla.client.errors import refused
from ottla.client.model import EARLIEST, Fetched, IsolationLevel
from ottla.console.conditions import Match, Matcher
from ottla.console.values import ShownRecord
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import Batch
from ottla.records.faults import CorruptRecords

PIECE_BYTES = 1 << 20
_LEAST_WINDOW, _WIDEST_WINDOW = 16, 100_000
_MOST_HELD = 16 << 20
"""Bytes of hits of one window that are held, when the newest come first."""
_AT_ONCE = 8


@dataclass(slots=True)
class OffsetSpan:
    """Offsets of one partition that are still to be looked at."""

    partition: int
    start: int
    end: int
    window: int = _LEAST_WINDOW
    """Offsets of the next piece, where the newest come first."""

    @property
    def left(self) -> int:
        return max(0, self.end - self.start)


@dataclass(slots=True)
class Progress:
    """The state of a scan, which goes on from its spans."""

    spans: list[OffsetSpan]
    newest_first: bool
    total: int = 0
    """Offsets to look at in all."""
    records: int = 0
    read_bytes: int = 0
    hits: int = 0
    reached_ms: int = -1
    """The time of the last record that was looked at."""
    faults: list[str] = field(default_factory=list)
    """Places that could not be looked at."""

    def __post_init__(self) -> None:
        self.total = self.total or sum(span.left for span in self.spans)

    @property
    def looked_at(self) -> int:
        """Offsets that were looked at."""
        return self.total - sum(span.left for span in self.spans)

    @property
    def is_done(self) -> bool:
        return not any(span.left for span in self.spans)


class TopicScan:
    """Looks at one topic. `steps` may be ended and begun again: it goes on where it was."""

    def __init__(
        self, cluster: Cluster, topic: str, progress: Progress, matcher: Matcher, *, committed_only: bool = False
    ) -> None:
        self._cluster, self.topic, self.progress, self._matcher = cluster, topic, progress, matcher
        self._isolation = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED

    async def steps(self) -> AsyncIterator[list[ShownRecord]]:
        """The hits of one piece after the other, the partitions by turns."""
        while not self.progress.is_done:
            for span in [each for each in self.progress.spans if each.left]:
                hits = await (self._back(span) if self.progress.newest_first else self._on(span))
                self.progress.hits += len(hits)
                yield hits

    async def _on(self, span: OffsetSpan) -> list[ShownRecord]:
        piece = await self._fetch(span, span.start)
        if isinstance(piece, int):
            span.start = piece
            return []
        hits = await self._looked(span.partition, piece, span.start, span.end)
        span.start = min(span.end, piece.next_offset)
        return hits

    async def _back(self, span: OffsetSpan) -> list[ShownRecord]:
        """A window before the span's end. It is made narrower or wider, so that it takes about one piece."""
        first = at = max(span.start, span.end - span.window)
        hits: deque[ShownRecord] = deque()
        taken = held = 0
        while at < span.end:
            piece = await self._fetch(span, at)
            if isinstance(piece, int):
                at = piece
                continue
            taken += len(piece.records)
            for hit in await self._looked(span.partition, piece, at, span.end):
                hits.append(hit)
                held += hit.size
                while held > _MOST_HELD and len(hits) > 1:
                    held -= hits.popleft().size
                    first = hits[0].offset  # what lies before is looked at again
            at = piece.next_offset
        span.end = first
        span.window = max(
            _LEAST_WINDOW, min(_WIDEST_WINDOW, span.window * PIECE_BYTES // max(taken, 1), span.window * 4)
        )
        return list(reversed(hits))

    async def _fetch(self, span: OffsetSpan, offset: int) -> Fetched | int:
        """The next piece, or the offset to go on from where there is none at this one: that is noted."""
        piece = await self._cluster.fetch(
            self.topic, span.partition, offset, max_bytes=PIECE_BYTES, isolation_level=self._isolation
        )
        self.progress.read_bytes += len(piece.records)
        if piece.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            place = TopicPartition(self.topic, span.partition)
            kept = min((await self._cluster.list_offsets([place], EARLIEST))[place].offset, span.end)
            if kept > offset:
                self._note(span.partition, span.start, kept, "deleted before they were read")
                span.start = max(span.start, kept)
                return kept
        if piece.error:
            raise refused(piece.error, f"{self.topic}-{span.partition} at offset {offset}")
        if piece.next_offset <= offset:
            why = "not readable now: a transaction is open there, or the log was cut"
            self._note(span.partition, offset, span.end, why)
            return span.end
        return piece

    def _note(self, partition: int, start: int, end: int, why: str) -> None:
        self.progress.faults.append(f"{self.topic}-{partition}, offsets {start:,} to {end - 1:,}: {why}")

    async def _looked(self, partition: int, piece: Fetched, start: int, end: int) -> list[ShownRecord]:
        hits: list[ShownRecord] = []
        committed = self._isolation is IsolationLevel.READ_COMMITTED
        for batch in visible_batches(piece, committed_only=committed):
            if batch.last_offset < start or batch.base_offset >= end:
                continue
            try:
                found = await self._match(partition, batch, start, end)
            except (CorruptRecords, ApiError) as fault:
                self._note(partition, batch.base_offset, batch.next_offset, str(fault))
                continue
            self.progress.records += found.records
            self.progress.reached_ms = batch.max_timestamp
            hits += found.hits
        return hits

    async def _match(self, partition: int, batch: Batch, start: int, end: int) -> Match:
        """Look at a batch; in a thread where schemas may have to be fetched, else between two turns of the loop."""
        if self._matcher.may_wait:
            return await asyncio.to_thread(self._matcher.look, partition, batch, start, end)
        await asyncio.sleep(0)
        return self._matcher.look(partition, batch, start, end)


async def newest_or_oldest(scans: Sequence[TopicScan], count: int) -> list[ShownRecord]:
    """The first records of several scans of one partition each, by time: those that a page shows."""
    newest = any(scan.progress.newest_first for scan in scans)
    best: list[ShownRecord] = []
    for at in range(0, len(scans), _AT_ONCE):
        for found in await asyncio.gather(*(_some(scan, count) for scan in scans[at : at + _AT_ONCE])):
            best = sorted([*best, *found], key=lambda each: (each.timestamp, each.offset), reverse=newest)[:count]
    return best


async def _some(scan: TopicScan, count: int) -> list[ShownRecord]:
    found: list[ShownRecord] = []
    async for hits in scan.steps():
        found += hits
        if len(found) >= count:
            break
    return found[:count]
