"""Finding records by time: what ListOffsets asks. It opens batches, so it is not for the hot path."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.records.batch import Batch
from ottla.records.faults import CorruptRecords
from ottla.records.header import TIMESTAMP_TYPE_BIT
from ottla.records.reader import Record, read_records
from ottla.storage.segment.agreement import is_time_of
from ottla.storage.segment.damage import Damage, find_around, headers_around
from ottla.storage.segment.scan import ScannedHeader, scan_headers
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.walk import Extent
from ottla.storage.values import TimestampOffset


def offset_for_timestamp(
    segments: Sequence[Segment], damage: Damage, log_start: int, timestamp: int
) -> TimestampOffset | None:
    """The first record, in offset order, whose timestamp is at or after `timestamp`."""
    for segment in segments:
        if segment.size == 0 or (segment.max_timestamp >= 0 and segment.max_timestamp < timestamp):
            continue
        found = _first_at_or_after(segment, damage.of(segment.base_offset), log_start, timestamp)
        if found is not None:
            return found
    return None


def _first_at_or_after(
    segment: Segment, extents: Sequence[Extent], log_start: int, timestamp: int
) -> TimestampOffset | None:
    # All batches up to the entry's have timestamps of at most the entry's.
    entry = None if extents else segment.times.floor(timestamp - 1)
    position = 0
    if entry is not None and is_time_of(segment, entry):
        found = segment.find(segment.base_offset + entry[1])
        position = found.position if found is not None else 0
    for header in headers_around(segment, extents, position):
        if header.max_timestamp < timestamp or header.next_offset <= log_start:
            continue
        for record in _records(segment, header, log_start):
            if record.timestamp >= timestamp and record.offset >= log_start:
                return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def max_timestamp_offset(segments: Sequence[Segment], damage: Damage) -> TimestampOffset | None:
    """The first record that has the largest timestamp of the whole log."""
    best: Segment | None = None
    for segment in segments:
        if segment.size and segment.max_timestamp >= 0 and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None:
        return None
    extents = damage.of(best.base_offset)
    wanted = best.max_timestamp_offset
    found = find_around(best, extents, wanted) if extents else best.find(wanted)
    if found is None:
        return None
    for header in scan_headers(best.file, found.position, found.position + found.size):
        for record in _records(best, header):
            if record.timestamp >= header.max_timestamp:
                return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        return TimestampOffset(header.max_timestamp, header.last_offset, header.leader_epoch)
    return None


def _records(segment: Segment, header: ScannedHeader, start: int = 0) -> list[Record]:
    """The records of one batch; where the broker stamped it, its first from `start` on stands for all."""
    if header.attributes & TIMESTAMP_TYPE_BIT and header.records_count:
        return [Record(max(start, header.base_offset), header.max_timestamp, None, None)]
    try:
        return read_records(Batch(segment.file.read_at(header.position, header.size)))
    except CorruptRecords:
        return []  # records that a producer wrote badly, and that an earlier broker let in: nothing to find there
