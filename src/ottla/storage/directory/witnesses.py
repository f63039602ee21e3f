"""Compares the numbers in a log directory's checkpoints with the logs' files before a log is opened (rule H1).

A number with a sound checksum is taken. For any other the log is the second witness: its files show where it starts and
ends, and where its leader epochs begin. Where the two differ, the number that deletes no record and gives no offset
again is taken.
"""

from __future__ import annotations

import logging
import posixpath
from bisect import bisect_right
from typing import NamedTuple

from ottla.kernel.seams import Disk
from ottla.storage.checkpoint import ASIDE, LEADER_EPOCHS, LOG_START, BadCheckpoint, parse_epochs, read_small
from ottla.storage.directory.remembered import Trust
from ottla.storage.segment.deleted_segments import deleted_in, start_without_deleted
from ottla.storage.segment.names import LOG, bases_in, segment_path
from ottla.storage.segment.scan import ScannedHeader, scan_headers

log = logging.getLogger("ottla.storage")


class Believed(NamedTuple):
    """An offset to go by; `doubt` is the reason if it differs from the one that was written down."""

    offset: int
    doubt: str = ""


class Noted(NamedTuple):
    """The numbers of a log directory's checkpoints for one log, and how far they are believed."""

    start: int | None
    start_trust: Trust
    recovery_point: int
    recovery_point_trust: Trust
    high_watermark: int
    clean: bool
    """True if the last close was a clean one."""
    copied_start: int | None = None
    """A larger start, which the second copy of the checkpoint says."""


def compared(disk: Disk, directory: str, name: str, noted: Noted) -> tuple[int, int]:
    """The log start offset and the recovery point; a number that is not taken as written is logged with its reason.

    Leader epochs that contradict the log are renamed: they are taken from its batches then.
    """
    files = LogFiles(disk, directory)
    start = believed_start(files, noted.start, noted.start_trust, clean=noted.clean)
    if noted.copied_start is not None and start.offset < noted.copied_start <= files.end_offset():
        doubt = f"{LOG_START} says {start.offset}, and its second copy is newer"
        start = Believed(noted.copied_start, doubt)
    if start.doubt:
        log.warning("%s starts at offset %d: %s", name, start.offset, start.doubt)
    if files.has_deleted:
        start = Believed(start_without_deleted(disk, directory, name, start.offset))
        files = LogFiles(disk, directory)
    point = believed_recovery_point(
        files,
        noted.recovery_point,
        noted.recovery_point_trust,
        high_watermark=noted.high_watermark,
        clean=noted.clean,
    )
    if point.doubt:
        log.warning("%s is recovered from offset %d on: %s", name, point.offset, point.doubt)
    if not noted.clean and (why := epochs_contradict(files, below=point.offset)):
        log.warning("the leader epochs of %s are taken from its batches: %s", name, why)
        path = posixpath.join(directory, LEADER_EPOCHS)
        disk.rename(path, path + ASIDE)
    return start.offset, point.offset


class LogFiles:
    """The facts about a log that its files show without its checkpoints."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        names = disk.list(directory)
        self.bases = bases_in(names)
        self.has_deleted = bool(deleted_in(names))
        """Retention has renamed segments that are still there."""
        self._scanned: tuple[int, list[ScannedHeader]] = (-1, [])

    def end_offset(self) -> int:
        """The offset after the last whole batch; no checksum is looked at."""
        for base in reversed(self.bases):
            headers = self._headers(base)
            if headers:
                return headers[-1].next_offset
        return self.bases[-1] if self.bases else 0

    def first_header(self) -> ScannedHeader | None:
        return next(iter(self._headers(self.bases[0])), None) if self.bases else None

    def epochs(self) -> tuple[list[tuple[int, int]], bool]:
        """The leader epochs that are written down, and whether a checksum vouches for them."""
        path = posixpath.join(self._directory, LEADER_EPOCHS)
        try:
            body = read_small(self._disk, path)
            return ([], False) if body is None else parse_epochs(path, body)
        except BadCheckpoint:
            return [], False

    def start_by_epochs(self, *, sealed_only: bool = False) -> int | None:
        """The log start offset by the leader epochs: the first epoch's start is moved along with it.

        None if the first epoch starts with the first batch: then the epochs do not tell that the log start has moved.
        """
        (entries, is_sealed), first = self.epochs(), self.first_header()
        if not entries or first is None or first.leader_epoch < 0 or (sealed_only and not is_sealed):
            return None
        epoch, start = entries[0]
        return start if start > first.base_offset and first.leader_epoch <= epoch else None

    def header_at(self, offset: int) -> ScannedHeader | None:
        """The header of the batch that holds the offset, or of the next one in its segment."""
        at = bisect_right(self.bases, offset) - 1
        found = self._headers(self.bases[at]) if at >= 0 else []
        return next((header for header in found if header.next_offset > offset), None)

    def _headers(self, base: int) -> list[ScannedHeader]:
        if self._scanned[0] != base:
            file = self._disk.open(segment_path(self._directory, base, LOG))
            try:
                self._scanned = base, list(scan_headers(file, 0, file.size()))
            finally:
                file.release()
        return self._scanned[1]


def believed_start(files: LogFiles, noted: int | None, trust: Trust, *, clean: bool) -> Believed:
    """The log start offset. After a crash a log whose end was lost may end below its checkpointed start."""
    if not files.bases:
        return Believed(noted or 0)
    first, last = files.bases[0], files.bases[-1]
    if noted is None or noted < first:
        entries, _ = files.epochs()
        if noted is not None and entries and noted < (moved := min(first, entries[0][1])):
            return Believed(moved, f"{noted} was written down, and no segment or leader epoch begins below {moved}")
        start = files.start_by_epochs(sealed_only=True)
        if start is None or noted is not None or not first < start <= files.end_offset():
            return Believed(max(noted or 0, 0))
        return Believed(start, "it is not written down; the leader epochs say so")
    if trust is Trust.SEALED and (noted <= last or len(files.bases) == 1 or not clean):
        return Believed(noted)
    if noted <= first:
        return Believed(noted)
    end, by_epochs = files.end_offset(), files.start_by_epochs()
    if noted <= end and (trust is not Trust.UNSEALED or by_epochs == noted or not files.epochs()[0]):
        return Believed(noted)
    if by_epochs == noted and not clean:
        return Believed(noted)
    least = by_epochs if by_epochs is not None and by_epochs < noted else first
    return Believed(least if least <= end else first, f"{noted} was written down, and the log ends at {end}")


def believed_recovery_point(files: LogFiles, noted: int, trust: Trust, *, high_watermark: int, clean: bool) -> Believed:
    """The recovery point. Without a sound checksum or another witness, a number above the log's end is not taken.

    If the checkpointed high watermark lies above the log's end too, the end was really lost.
    """
    if clean or trust is Trust.SEALED or not files.bases or noted <= files.bases[-1]:
        return Believed(noted)
    end = files.end_offset()
    if noted <= end or high_watermark > end:
        return Believed(noted)
    return Believed(end, f"{noted} was written down, and the log ends at {end}")


def epochs_contradict(files: LogFiles, *, below: int) -> str:
    """The reason why leader epochs without a checksum cannot belong to this log; "" if they can.

    Each epoch starts with a batch of that epoch, or of a later one where compaction has taken its batches. That holds
    below the recovery point: behind it a crash may have brought back what was cut off before the epoch began.
    """
    entries, is_sealed = files.epochs()
    if is_sealed or not files.bases:
        return ""
    for epoch, start in entries:
        header = files.header_at(start) if files.bases[0] <= start < below else None
        if header is None or header.leader_epoch == epoch:
            continue
        if header.leader_epoch < epoch or header.base_offset == start:
            return f"epoch {epoch} at offset {start}, where the batch is of epoch {header.leader_epoch}"
    return ""
