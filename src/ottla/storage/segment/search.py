"""Finds batches of a segment through its offset index. An entry that names no batch's end is passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage.segment.scan import LOOK_BYTES, FoundBatch, scan_headers

if TYPE_CHECKING:
    from ottla.kernel.seams import OpenFile
    from ottla.storage.segment.segment import Segment


def find_by_index(segment: Segment, offset: int) -> FoundBatch | None:
    """The first batch whose last offset is at or above `offset`; None where the segment has none."""
    entry = segment.index.floor(offset - segment.base_offset)
    while entry is not None:
        begun = False
        for header in scan_headers(segment.file, entry[1], segment.size, chunk_bytes=LOOK_BYTES):
            if not begun and header.last_offset != segment.base_offset + entry[0]:
                break
            begun = True
            if header.next_offset > offset:
                return FoundBatch(header.position, header.size, header.base_offset, header.next_offset)
        if begun:
            return None
        entry = segment.index.floor(entry[0] - 1)  # no batch ends where this entry points
    for header in scan_headers(segment.file, 0, segment.size, chunk_bytes=LOOK_BYTES):
        if header.next_offset > offset:
            return FoundBatch(header.position, header.size, header.base_offset, header.next_offset)
    return None


def entry_below(segment: Segment, offset: int) -> tuple[int, int] | None:
    """The last offset and the position of a batch that ends at or below `offset`, by a correct index entry."""
    entry = segment.index.floor(offset - segment.base_offset)
    while entry is not None:
        for header in scan_headers(segment.file, entry[1], segment.size, chunk_bytes=64):
            if header.last_offset == segment.base_offset + entry[0]:
                return header.last_offset, header.position
            break
        entry = segment.index.floor(entry[0] - 1)
    return None


def batch_at(segment: Segment, file: OpenFile, limit: int) -> tuple[int, int]:
    """The position and base offset of the last batch at or below a position that a correct index entry names."""
    entry = segment.index.floor_value(limit)
    while entry is not None and entry[1]:
        header = next(scan_headers(file, entry[1], segment.size, chunk_bytes=64), None)
        if header is not None and header.last_offset == segment.base_offset + entry[0]:
            return header.position, header.base_offset
        entry = segment.index.floor_value(entry[1] // 2)
    return 0, segment.base_offset
