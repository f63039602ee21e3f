"""The `.txnindex` of a segment: transactions that were aborted, for readers of committed records."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from ottla.kernel.seams import Disk, OpenFile
from ottla.records.checksum import crc32c
from ottla.storage.checkpoint import clear_the_way

ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedEntry(NamedTuple):
    """One aborted transaction: its first record, its marker, and the last stable offset when the marker came."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Seal(NamedTuple):
    """The number of entries and their checksum, which are noted beside the file."""

    number: int
    crc: int


def seal_of(entries: Sequence[AbortedEntry]) -> Seal:
    return Seal(len(entries), crc32c(_packed(entries)))


def entries_in(body: bytes) -> list[AbortedEntry]:
    """The entries in a file's bytes, up to one that is torn or of another version."""
    found: list[AbortedEntry] = []
    for version, *fields in ENTRY.iter_unpack(body[: len(body) - len(body) % ENTRY.size]):
        if version != _VERSION:
            break
        found.append(AbortedEntry(*fields))
    return found


def _packed(entries: Sequence[AbortedEntry]) -> bytes:
    return b"".join(ENTRY.pack(_VERSION, *entry) for entry in entries)


class AbortedIndex:
    """Entries in the order of their markers. The file exists only where there is an entry, as in Kafka.

    New entries go to the file with the other indexes. A start compares the file with the note beside it and builds it
    again from the markers where they differ (producers/aborted_witness.py); from then on the entries are in memory.
    """

    __slots__ = ("_disk", "_entries", "_file", "_holds_more", "_on_disk", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._file: OpenFile | None = None
        self._entries: list[AbortedEntry] | None = None
        self._on_disk = 0
        self._holds_more = False
        """The file has bytes behind its last entry."""
        self.path = path

    @property
    def entries(self) -> list[AbortedEntry]:
        """Read once, then kept: aborts are rare."""
        if self._entries is None:
            body = self._disk.read(self.path) if self._disk.exists(self.path) else b""
            self._entries = entries_in(body)
            self._on_disk = len(self._entries)
            self._holds_more = len(body) > self._on_disk * ENTRY.size
        return self._entries

    def begin_empty(self) -> None:
        """Note that a new segment has no file yet, which spares the look at the disk."""
        self._entries = []

    def add(self, entry: AbortedEntry) -> None:
        self.entries.append(entry)

    @property
    def makes_file(self) -> bool:
        """True if the next `write_out` makes the file: then its name needs a sync too."""
        return self._on_disk == 0 < len(self.entries)

    def write_out(self) -> OpenFile | None:
        """Put new entries into the file; return the file if it needs a sync."""
        entries = self.entries
        if self._on_disk < len(entries):
            self._open().write_at(self._on_disk * ENTRY.size, [_packed(entries[self._on_disk :])])
            self._on_disk = len(entries)
        return self._file

    def cut_end(self, end_offset: int, *, base_offset: int) -> None:
        """Drop the entries from the first on whose marker lies at or above `end_offset`, or in front of the segment."""
        kept = list(takewhile(lambda entry: base_offset <= entry.last_offset < end_offset, self.entries))
        if len(kept) == len(self.entries) and not self._holds_more:
            return
        if self._disk.exists(self.path):
            self._open().truncate(len(kept) * ENTRY.size)
        self._entries, self._holds_more = kept, False
        self._on_disk = min(self._on_disk, len(kept))

    def rebuilt(self, entries: list[AbortedEntry]) -> None:
        """Put these into the file instead of all that it holds, and sync it."""
        self.close()
        clear_the_way(self._disk, self.path)
        self._disk.remove(self.path)
        self._entries, self._on_disk, self._holds_more = entries, 0, False
        written = self.write_out()
        if written is not None:
            written.sync()
        self.close()

    def _open(self) -> OpenFile:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.release()
