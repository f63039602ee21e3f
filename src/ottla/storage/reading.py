"""Reads of a log: the hot tail from memory, older parts by their indexes. Comes from log.py's read."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import FileSlice
from ottla.storage.segment.damage import find_around, is_in_place, is_sound_gap, limit_around
from ottla.storage.segment.segment import Found, Segment
from ottla.storage.values import AbortedTransaction, LogRead

if TYPE_CHECKING:
    from ottla.storage.log import Log


def read(
    log: Log, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool, with_aborted: bool
) -> LogRead | ErrorCode:
    """As `Log.read` says; what the active segment remembers of its batches needs no look at the disk."""
    end = log.end_offset
    limit_offset = min(limit_offset, end)
    if offset >= limit_offset or offset < log.log_start_offset:
        return nothing(log, offset)
    active = log.active
    ends = active.ends
    if not ends or offset < active.bases[0]:
        return read_cold(log, offset, max_bytes, limit_offset, at_least_one, with_aborted)
    at = bisect_right(ends, offset)
    stop = len(ends) if limit_offset == end else bisect_right(ends, limit_offset)
    if at >= stop:
        return LogRead([], -1, 0, [] if with_aborted else None)
    positions = active.positions
    position = positions[at]
    length = (positions[stop] if stop < len(ends) else active.size) - position
    if length > max_bytes:
        cut = bisect_right(positions, position + max_bytes, at, stop) - 1
        if cut == at:
            if not at_least_one and active.size - position > max_bytes:
                first_end = positions[at + 1] if at + 1 < len(ends) else active.size
                if first_end - position > max_bytes:
                    return LogRead([], -1, 0, [] if with_aborted else None)
            cut = at + 1
        length = (positions[cut] if cut < len(ends) else active.size) - position
    aborted = aborted_between(log, active, offset, limit_offset) if with_aborted else None
    return LogRead([FileSlice(active.file, position, length)], active.bases[at], length, aborted)


def nothing(log: Log, offset: int) -> LogRead | ErrorCode:
    """There is nothing below the limit at `offset`, or the log does not reach there."""
    if log.damaged_at is not None and offset >= log.damaged_at:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if offset > log.end_offset or offset < log.log_start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return LogRead([], -1, 0, None)


def read_cold(
    log: Log, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool, with_aborted: bool
) -> LogRead | ErrorCode:
    """From any segment, through the sparse index. A batch that is not the first may be cut by `max_bytes`.

    Known damage is refused; a read in front of it ends there. So is what shows that there is damage, or that a file is
    missing.
    """
    if log.damage and log.damage.covers(offset):
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        return _read_sound(log, offset, max_bytes, limit_offset, at_least_one, with_aborted)
    except FileNotFoundError:
        return ErrorCode.KAFKA_STORAGE_ERROR


def _read_sound(
    log: Log, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool, with_aborted: bool
) -> LogRead | ErrorCode:
    located = locate(log, offset)
    if (located is None or located[1].base_offset > offset) and not _is_sound_gap(log, offset, located):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if located is not None and located[1].next_offset > located[0].next_offset:
        return ErrorCode.KAFKA_STORAGE_ERROR  # no batch reaches beyond its segment
    if located is None or located[1].next_offset > limit_offset:
        return LogRead([], -1, 0, [] if with_aborted else None)
    segment, found = located
    extents = log.damage.of(segment.base_offset)
    if not extents and not is_in_place(segment, found, log.epochs):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if extents:
        stop = limit_around(segment, extents, found.position, limit_offset)
    else:
        stop = segment.limit_position(limit_offset)
    length = min(stop - found.position, max_bytes)
    if length < found.size:
        if not at_least_one:
            return LogRead([], -1, 0, [] if with_aborted else None)
        length = found.size
    upper_offset = min(limit_offset, segment.next_offset)  # no batch of a later segment is returned
    aborted = aborted_between(log, segment, offset, upper_offset) if with_aborted else None
    return LogRead([FileSlice(segment.file, found.position, length)], found.base_offset, length, aborted)


def locate(log: Log, offset: int) -> tuple[Segment, Found] | None:
    """The first batch whose last offset is at or above `offset`, and its segment."""
    for at in range(max(0, bisect_right(log.bases, offset) - 1), len(log.segments)):
        segment = log.segments[at]
        extents = log.damage.of(segment.base_offset)
        found = find_around(segment, extents, offset) if extents else segment.find(offset)
        if found is not None:
            return segment, found
    return None


def _is_sound_gap(log: Log, offset: int, located: tuple[Segment, Found] | None) -> bool:
    """Whether nothing stands at `offset` because nothing is left there: who reads on must not pass over damage."""
    for segment in log.segments[max(0, bisect_right(log.bases, offset) - 1) :]:
        found = located[1] if located is not None and located[0] is segment else None
        if not log.damage.of(segment.base_offset) and not is_sound_gap(segment, offset, found):
            return False
        if found is not None:
            break
    return True


def aborted_between(log: Log, first: Segment, offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """Aborted transactions with a record in [offset, upper_offset): their markers may lie in later segments."""
    found: list[AbortedTransaction] = []
    for segment in (first,) if first is log.active else log.segments[log.segments.index(first) :]:
        for entry in segment.aborted.entries:
            if entry.last_offset >= offset and entry.first_offset < upper_offset:
                found.append(AbortedTransaction(entry.producer_id, entry.first_offset))
            if entry.last_stable_offset >= upper_offset:
                return found
    return found
