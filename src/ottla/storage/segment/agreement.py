"""A look at a few batches of a segment tells whether its indexes agree with them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ottla.storage.segment.index import MAX_RELATIVE_OFFSET
from ottla.storage.segment.scan import counted_timestamp, scan_headers

if TYPE_CHECKING:
    from ottla.storage.segment.scan import ScannedHeader
    from ottla.storage.segment.segment import Segment

TimeEntry = tuple[int, int]
"""An entry of the time index: a timestamp, and the relative last offset of the batch that has it."""


def has_timestamps(segment: Segment) -> bool:
    """True if any batch has a timestamp, so that the time index must have an entry.

    Batches that compaction has emptied have none, and neither do those of a producer that sends none (-1).
    """
    return any(counted_timestamp(header) >= 0 for header in segment.headers_once(0))


def ends_at(segment: Segment, next_offset: int) -> bool:
    """True if the last batches of a closed segment, from the last index entry on, end there and fill the file, and
    the time index knows a timestamp as large as theirs.

    A log begins a new segment behind a hole too large for one segment; then the file ends in front of the hole.
    """
    entry = segment.index.last()
    position = entry[1] if entry is not None else 0
    expected = segment.base_offset
    for header in segment.headers_once(position):
        if entry is not None and header.position == entry[1] and header.last_offset != entry[0] + segment.base_offset:
            return False
        if header.base_offset < expected or counted_timestamp(header) > segment.max_timestamp:
            return False
        position, expected = header.position + header.size, header.next_offset
    return position == segment.size and (expected == next_offset or next_offset - expected > MAX_RELATIVE_OFFSET)


def sound_entries(segment: Segment, size: int) -> int:
    """The number of leading index entries, in memory, that rise and lie inside of a file of this size."""
    assert segment.index.keys is not None
    keys, positions = segment.index.keys, segment.index.values
    if keys and not (keys[0] >= 0 and 0 <= positions[0] < size):
        return 0
    for at in range(1, len(keys)):
        if keys[at] <= keys[at - 1] or not positions[at - 1] < positions[at] < size:
            return at
    return len(keys)


def has_rising_times(segment: Segment) -> bool:
    """True if the entries of the time index, in memory, rise in time and in offset."""
    entries = segment.times.entries()
    return all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(entries))


def is_time_of(segment: Segment, entry: TimeEntry) -> bool:
    """True if the batch that an entry of the time index names ends at its offset and has its timestamp."""
    found = segment.find(segment.base_offset + entry[1])
    if found is None or found.next_offset - 1 != segment.base_offset + entry[1]:
        return False
    for header in scan_headers(segment.file, found.position, found.position + found.size, chunk_bytes=64):
        return counted_timestamp(header) == entry[0]
    return False


def sound_times(segment: Segment, last: int, header: ScannedHeader | None) -> tuple[int, TimeEntry | None] | None:
    """The number of entries of the time index at or below a relative offset, and the first above it; None if one of
    them is wrong.

    All entries must rise. The last one that is counted, which holds the largest timestamp so far, is compared with its
    batch: `header`, if that is the batch of the offset index's last entry.
    """
    before, kept, border, above = (-1, -1), 0, (-1, -1), None
    for entry in segment.times.entries():
        if entry[0] <= before[0] or entry[1] <= before[1]:
            return None
        before = entry
        if entry[1] <= last:
            kept, border = kept + 1, entry
        elif above is None:
            above = entry
    if not kept:
        return 0, above
    if header is not None and border[1] == last:
        sound = counted_timestamp(header) == border[0]
    else:
        sound = is_time_of(segment, border)
    return (kept, above) if sound else None
