"""Appends a leader's batches on a follower: they are checked, then written as they are (rules A11, E10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import Buffer
from ottla.records.checksum import crc32c
from ottla.storage import rolling
from ottla.storage.producers.sequencing import note_header
from ottla.storage.retention import raise_start
from ottla.storage.segment.scan import CRC_START, HEADER_BYTES, MAGIC, Header, parse_header
from ottla.storage.segment.segment import MAX_RELATIVE_OFFSET
from ottla.storage.truncation import truncate_fully_to
from ottla.storage.values import Appended

if TYPE_CHECKING:
    from ottla.storage.log import Log

_LAST_OFFSET = 2**63 - 1
ANY_EPOCH = 2**31 - 1


def append_run(log: Log, run: Buffer, *, wall_ms: int, newest_epoch: int = ANY_EPOCH) -> Appended | ErrorCode:
    """All of it is checked before any of it is written. No batch has an epoch above `newest_epoch`, the leader's."""
    if log.refusing:
        return ErrorCode.KAFKA_STORAGE_ERROR
    whole = memoryview(run)
    headers = check_run(log, whole, newest_epoch)
    if isinstance(headers, ErrorCode):
        return headers
    if not headers:
        return Appended(log.end_offset, log.end_offset, log.log_start_offset)
    first = headers[0].base_offset
    start = log.log_start_offset
    at = 0
    try:
        if first < log.end_offset:
            truncate_fully_to(log, first, wall_ms)
        while at < len(headers):
            at = _append_group(log, whole, headers, at, wall_ms)
        if first < start:
            raise_start(log, start)
    except OSError as fault:
        if log.refusing:  # it failed in the middle of beginning anew, be it that the disk was full
            raise
        _put_back_start(log, start, wall_ms)
        return log.refuse(fault)
    return Appended(first, log.end_offset, log.log_start_offset)


def _put_back_start(log: Log, start: int, wall_ms: int) -> None:
    """Where nothing, or not all, of a run came in: a log whose start was inside its first batch starts there still."""
    try:
        if log.end_offset < start:
            truncate_fully_to(log, start, wall_ms)
        elif log.log_start_offset < start:
            raise_start(log, start)
    except OSError:
        log.refusing = True
        raise


def check_run(log: Log, whole: memoryview, newest_epoch: int = ANY_EPOCH) -> list[Header] | ErrorCode:
    """The headers of the whole batches in a run, or what is wrong with it. A peer's bytes never reach an assert.

    Base offset and epoch are in no CRC. A hole in front of a batch is believed where the batch behind goes on from
    there, else only in a log that was compacted; a batch that cannot be believed yet comes again with the next run.
    """
    headers: list[Header] = []
    position, expected, epoch = 0, log.end_offset, log.epochs.latest
    while position + HEADER_BYTES <= len(whole):
        header = parse_header(whole, position, position)
        if header.size < HEADER_BYTES or header.magic != MAGIC or header.last_offset_delta < 0:
            return ErrorCode.CORRUPT_MESSAGE
        if header.next_offset > _LAST_OFFSET:  # the base offset is not in the CRC
            return ErrorCode.CORRUPT_MESSAGE
        if position + header.size > len(whole):
            break
        if header.base_offset < expected and (headers or not _starts_inside(log, header)):
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if header.leader_epoch < epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if header.leader_epoch > newest_epoch:
            return ErrorCode.CORRUPT_MESSAGE
        if header.base_offset > expected and not _is_hole(log, header, whole):
            return headers or ErrorCode.CORRUPT_MESSAGE
        if crc32c(whole[position + CRC_START : position + header.size]) != header.crc:
            return ErrorCode.CORRUPT_MESSAGE
        headers.append(header)
        epoch, expected = header.leader_epoch, header.next_offset
        position += header.size
    return headers


def _is_hole(log: Log, header: Header, whole: memoryview) -> bool:
    """Whether nothing is left in front of a batch, as by compaction, and not a bit has flipped in its offset."""
    end = header.position + header.size
    if end + HEADER_BYTES > len(whole):
        return log.sparse
    if parse_header(whole, end, end).base_offset < header.next_offset:
        return False
    log.sparse = True
    return True


def _starts_inside(log: Log, header: Header) -> bool:
    """Whether an empty log starts in the middle of this batch, as DeleteRecords may have let its leader's start."""
    empty = log.end_offset == log.log_start_offset  # what its files hold still is deleted
    return empty and header.base_offset < log.end_offset < header.next_offset


def _append_group(log: Log, whole: memoryview, headers: list[Header], at: int, wall_ms: int) -> int:
    """One write: batches up to the next roll or the next new epoch. Where the rest begins."""
    head = headers[at]
    rolling.roll_if_due(log, head.size, head.base_offset, head.next_offset, head.max_timestamp, wall_ms)
    if head.leader_epoch > log.epochs.latest:
        log.epochs.assign(head.leader_epoch, head.base_offset)
    active = log.active
    stop, size = at + 1, head.size
    while stop < len(headers):
        header = headers[stop]
        if (
            header.leader_epoch != head.leader_epoch
            or active.size + size + header.size > log.segment_bytes
            or (log.roll_timestamp >= 0 and header.max_timestamp > log.roll_timestamp)
            or active.index.count + (stop - at) >= active.max_entries
            or header.next_offset - active.base_offset > MAX_RELATIVE_OFFSET
        ):
            break
        size += header.size
        stop += 1
    group = headers[at:stop]
    active.append_run([whole[head.position : head.position + size]], group)
    log.bounds.appended(active.next_offset)
    for header in group:
        if header.producer_id >= 0:
            note_header(log, header, whole[header.position : header.position + header.size])
    return stop
