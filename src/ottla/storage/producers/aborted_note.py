"""The note of a log about its aborted transactions: how many entries each `.txnindex` holds, and their checksum.

Kafka's file has no checksum, and is missing where nothing was aborted; so a lost or changed file is told by this note.
It is written with each producer snapshot, beside which recovery does not read the markers again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.kernel.seams import Disk, FailedSync, OpenFile
from ottla.storage.checkpoint import (
    ABORTED,
    TEMPORARY,
    BadCheckpoint,
    clear_the_way,
    parse_numbers,
    read_small,
    sealed_numbers,
)
from ottla.storage.folder import LogFolder
from ottla.storage.segment.aborted import AbortedEntry, Seal, seal_of
from ottla.storage.segment.segment import Segment
from ottla.storage.values import FULL_DISK

_NONE = seal_of(())


class AbortedNote(NamedTuple):
    """The contents of the note."""

    end_offset: int
    """Every marker below is counted."""
    seals: Mapping[int, Seal]
    """By the base offsets of the segments that had any entry."""

    def vouches(self, segment: Segment, entries: Sequence[AbortedEntry]) -> bool:
        """True if these are the entries that a segment had, as far as the note reaches."""
        if segment.next_offset > self.end_offset:
            entries = [entry for entry in entries if entry.last_offset < self.end_offset]
        return seal_of(entries) == self.seal(segment.base_offset)

    def seal(self, base_offset: int) -> Seal:
        return self.seals.get(base_offset, _NONE)


def read_note(disk: Disk, directory: str) -> AbortedNote | None:
    """None where it is missing or damaged, or where nothing vouches for it."""
    path = posixpath.join(directory, ABORTED)
    try:
        body = read_small(disk, path)
        if body is None:
            return None
        (first, *rows), is_sealed = parse_numbers(path, body, 3)
    except (BadCheckpoint, ValueError):
        return None
    return AbortedNote(first[0], {base: Seal(number, crc) for base, number, crc in rows}) if is_sealed else None


def write_note(folder: LogFolder, segments: Sequence[Segment], end_offset: int) -> list[OpenFile]:
    """Note the entries of these segments, which are all that have a marker below `end_offset`.

    The file is handed back, held, for the next sync. A crash may tear it; then the entries are taken from the batches.
    Where there is no entry there is no note.
    """
    path = posixpath.join(folder.path, ABORTED)
    rows = [(one.base_offset, *seal_of(one.aborted.entries)) for one in segments if one.aborted.entries]
    if not rows:
        with suppress(IsADirectoryError):
            folder.disk.remove(path)
        return []
    temporary = path + TEMPORARY
    folder.disk.remove(temporary)
    file = folder.disk.open(temporary, create=True)
    try:
        file.write_at(0, [sealed_numbers([(end_offset, len(rows), 0), *rows])])
        clear_the_way(folder.disk, path)
        folder.disk.rename(temporary, path)
    except BaseException:
        file.release()
        raise
    return [file]


def put_note(folder: LogFolder, segments: Sequence[Segment], end_offset: int) -> None:
    """Write it, and sync it. On a full disk the one from before stays, and does not vouch for what has changed."""
    try:
        for file in write_note(folder, segments, end_offset):
            try:
                file.sync()
            finally:
                file.release()
            folder.sync()
    except OSError as fault:
        if fault.errno not in FULL_DISK or isinstance(fault, FailedSync):
            raise
