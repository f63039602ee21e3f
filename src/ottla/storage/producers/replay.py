"""Producer state as of a log's end: the newest snapshot, then the batches behind it (rule B7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.storage.producers.producers import Producers
from ottla.storage.producers.sequencing import note_header
from ottla.storage.producers.snapshot import load_newest, put_snapshot
from ottla.storage.segment.aborted import AbortedIndex
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.damage import Damage, find_around, headers_around
from ottla.storage.segment.scan import ScannedHeader, scan_headers
from ottla.storage.segment.segment import Segment


class ReplayedBatches(NamedTuple):
    """The offset from which on batches were read, and their number."""

    start: int
    batches: int


def replay_producers(
    producers: Producers,
    chain: SegmentChain,
    damage: Damage,
    *,
    end_offset: int,
    at_most: int,
    snapshots: list[int] | None = None,
    put_snapshots: bool = False,
) -> ReplayedBatches:
    """Take the newest snapshot not above `at_most`; `snapshots` are the offsets of those there, where they are known.

    `put_snapshots`: write the one that each segment begins with again, as retention and truncation count on it.
    """
    folder, batches = chain.folder, 0
    loaded = load_newest(folder.disk, folder.path, at_most, there=snapshots)
    producers.clear()
    start = chain.bases[0]
    if loaded is not None:
        start = max(loaded[0], start)
        producers.take_over(loaded[1])
    for segment in chain.segments:
        if put_snapshots and segment.base_offset > start:
            put_snapshot(folder.disk, folder.path, segment.base_offset, producers)
        if segment.next_offset <= start or segment.size == 0:
            continue
        segment.aborted.cut_end(start, base_offset=segment.base_offset)
        batches += replay_segment(producers, segment.aborted, segment, damage, start, end_offset)
        if segment.index.keys is None and (rewritten := segment.aborted.write_out()) is not None:
            rewritten.sync()  # no later sync covers the indexes of a closed segment
            segment.aborted.close()
    return ReplayedBatches(start, batches)


def replay_segment(
    producers: Producers, aborted: AbortedIndex, segment: Segment, damage: Damage, start: int, end_offset: int
) -> int:
    """Note the producers' batches in [start, end_offset), and the transactions that they end; how many were read."""
    batches = 0
    for header in _headers_from(segment, damage, start):
        batches += 1
        if header.producer_id >= 0 and header.last_offset >= start and header.next_offset <= end_offset:
            view = memoryview(segment.file.read_at(header.position, header.size) if header.is_control else b"")
            note_header(producers, aborted, header, view)
    return batches


def _headers_from(segment: Segment, damage: Damage, offset: int) -> Iterator[ScannedHeader]:
    extents = damage.of(segment.base_offset)
    if extents:
        sound = find_around(segment, extents, offset)
        return headers_around(segment, extents, sound.position if sound is not None else segment.size)
    found = segment.find(offset)
    return scan_headers(segment.file, found.position if found is not None else segment.size, segment.size)
