"""Judges the segments that retention has renamed to `.deleted`, before a log is opened (rules H1, H3).

The name alone proves no deletion: the log start is checkpointed before files go. A segment whose deletion was not noted
down is whole, and gets its old name back. Only on a full disk files go although the new start could not be noted down.
Then retention leaves a stub: of the last deleted segment the header of its first batch, and not a byte more. A whole
segment, an empty file or a torn one is not a stub.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Sequence

from ottla.kernel.seams import Disk
from ottla.records.checksum import crc32c
from ottla.records.header import CRC_START, HEADER_SIZE, MAGIC
from ottla.storage.segment.names import DELETED, LOG, base_offset_of, bases_in, segment_path
from ottla.storage.segment.scan import ScannedHeader, parse_header, scan_batches, scan_headers
from ottla.storage.segment.segment import Segment

log = logging.getLogger("ottla.storage")


def deleted_in(names: Sequence[str]) -> list[int]:
    """Base offsets of the segments that have been renamed, rising."""
    return sorted(base for name in names if (base := base_offset_of(name, LOG + DELETED)) is not None)


def start_without_deleted(disk: Disk, directory: str, name: str, start: int) -> int:
    """The log start, raised where a stub proves it; segments that are not below it are put back. Both are said."""
    names = disk.list(directory)
    deleted, bases = [base for base in deleted_in(names) if not _is_directory(disk, directory, base)], bases_in(names)
    for base in deleted:
        if not is_below(disk, directory, base, bases, start) and _fits_in(disk, directory, base, {*bases, *deleted}):
            _put_back(disk, directory, base, start)
            bases = sorted({*bases, base})
    for base in deleted:
        raised = _start_behind_stub(disk, directory, base, bases)
        if raised > start:
            stub = segment_path("", base, LOG + DELETED)
            log.warning("%s starts at offset %d, not %d: the segments below were deleted on a full disk, as %s says",
                        name, raised, start, stub)  # fmt: skip
            start = raised
    return start


def is_below(disk: Disk, directory: str, base: int, bases: Sequence[int], start: int) -> bool:
    """True if a renamed segment holds nothing from the log start on: it may go. `bases`: of the log's segments."""
    if any(base < other <= start for other in bases):
        return True
    if base >= start:
        return False
    file = disk.open(segment_path(directory, base, LOG + DELETED))
    try:
        size, position, end = file.size(), 0, base
        for header in scan_headers(file, 0, size):
            position, end = header.position + header.size, header.next_offset
    finally:
        file.release()
    return size in (0, HEADER_SIZE) or (position == size and end <= start)


def _is_directory(disk: Disk, directory: str, base: int) -> bool:
    return disk.is_directory(segment_path(directory, base, LOG + DELETED))


def _fits_in(disk: Disk, directory: str, base: int, others: set[int]) -> bool:
    """True if a renamed segment is whole, begins behind the segment before it, and ends where the next one begins."""
    if disk.exists(segment_path(directory, base, LOG)):
        return False
    end = _end_if_whole(disk, segment_path(directory, base, LOG + DELETED), base)
    following = min((other for other in others if other > base), default=end)
    return end is not None and end == following and not _is_reached(disk, directory, base)


def _end_if_whole(disk: Disk, path: str, base: int) -> int | None:
    """The offset after its last batch; None where a byte of it is not part of a sound batch."""
    file = disk.open(path)
    try:
        size, position, end = file.size(), 0, base
        for header, view in scan_batches(file, 0, size):
            if crc32c(view[CRC_START:]) != header.crc or header.base_offset < end:
                return None
            position, end = header.position + header.size, header.next_offset
    finally:
        file.release()
    return end if size and position == size else None


def _is_reached(disk: Disk, directory: str, base: int) -> bool:
    """True if the segment in front holds offsets from `base` on: the renamed file is of another time, then."""
    before = max((other for other in bases_in(disk.list(directory)) if other < base), default=None)
    if before is None:
        return False
    file = disk.open(segment_path(directory, before, LOG))
    try:
        return any(header.next_offset > base for header in scan_headers(file, 0, file.size()))
    finally:
        file.release()


def _put_back(disk: Disk, directory: str, base: int, start: int) -> None:
    path = segment_path(directory, base, LOG)
    log.warning("%s%s is not below the log's start %d: its deletion was not noted down, and it is renamed to %s",
                path, DELETED, start, posixpath.basename(path))  # fmt: skip
    Segment(disk, directory, base, created_ms=0).rename_files(DELETED, "")
    disk.sync_directory(directory)


def _start_behind_stub(disk: Disk, directory: str, base: int, bases: Sequence[int]) -> int:
    """The base of the segment behind a stub; -1 where the file is none, or does not fit among the segments."""
    path = segment_path(directory, base, LOG + DELETED)
    following = min((other for other in bases if other > base), default=None)
    if following is None or base in bases:
        return -1
    header = _stub(disk, path)
    if header is None or not base <= header.base_offset <= header.last_offset < following:
        return -1
    return -1 if _is_reached(disk, directory, base) else following


def _stub(disk: Disk, path: str) -> ScannedHeader | None:
    """The one header that a stub consists of."""
    if disk.file_size(path) != HEADER_SIZE:
        return None
    header = parse_header(disk.read(path), 0, 0)
    return header if header.magic == MAGIC and header.size >= HEADER_SIZE else None
