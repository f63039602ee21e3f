"""One segment: a file of batches with its indexes. Comes from log.py; owns its file; next door is disk/local.py.

Only the last segment of a log is written. It remembers the boundaries of the batches written or scanned last, so that a
read of the hot tail starts and ends on a batch without looking into the file.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.kernel.seams import Buffer, Disk, OpenFile
from ottla.storage.segment.aborted import AbortedIndex
from ottla.storage.segment.agreement import has_timestamps, is_time_of, sound_times
from ottla.storage.segment.index import SparseIndex, offset_index, time_index
from ottla.storage.segment.names import (
    ABORTED_INDEX,
    INDEX,
    LOG,
    SUFFIXES,
    TIME_INDEX,
    segment_path,
)
from ottla.storage.segment.scan import LOOK_BYTES, FoundBatch, ScannedHeader, counted_timestamp, scan_headers
from ottla.storage.segment.search import find_by_index

_RECENT = 4096
"""The boundaries remembered; the older half is dropped at twice as many."""


class Doomed(NamedTuple):
    """A segment that was taken out of its log; readers may still be sending its bytes."""

    segment: Segment
    since_ms: int
    renamed: bool


class Segment:
    """Batches from `base_offset` on."""

    __slots__ = (
        "_disk",
        "_file",
        "_last_suffix",
        "aborted",
        "base_offset",
        "bases",
        "created_ms",
        "directory",
        "dropped",
        "ends",
        "first_timestamp",
        "index",
        "index_full",
        "index_interval",
        "max_entries",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "positions",
        "since_entry",
        "size",
        "times",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, *, created_ms: int, last_suffix: str = "") -> None:
        self._disk = disk
        self._last_suffix = last_suffix
        self._file: OpenFile | None = None
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.size = 0
        self.next_offset = base_offset
        """The offset after the last batch; for a sealed segment at least the next one's base."""
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        """Last offset of the batch that has the largest timestamp."""
        self.first_timestamp = -1
        self.index: SparseIndex = offset_index(disk, self.path(INDEX))
        self.times: SparseIndex = time_index(disk, self.path(TIME_INDEX))
        self.aborted = AbortedIndex(disk, self.path(ABORTED_INDEX))
        self.index_interval = 4096
        self.max_entries = 10 * 1024 * 1024 // 12
        self.index_full = False
        self.since_entry = 0
        self.dropped: tuple[int, int] | None = None
        """The first time entry that `restart_from` left out, as the scan should find it again."""
        self.ends: list[int] = []
        """The recent batches: the offset after each, its position in the file, and its base offset."""
        self.positions: list[int] = []
        self.bases: list[int] = []

    def path(self, suffix: str) -> str:
        return segment_path(self.directory, self.base_offset, suffix) + self._last_suffix

    @property
    def file(self) -> OpenFile:
        """Opened at first use; all writes and syncs go through this one (rule B1)."""
        if self._file is None:
            self._file = self._disk.open(self.path(LOG))
        return self._file

    def create_file(self) -> OpenFile:
        self._file = self._disk.open(self.path(LOG), create=True)
        return self._file

    # -- writing ---

    def append(
        self, parts: Sequence[Buffer], size: int, base_offset: int, next_offset: int, max_timestamp: int
    ) -> None:
        """Write one batch. A write that fails is cut back in the same call (rule B3) and raised."""
        position = self.size
        try:
            self._file.write_at(position, parts)  # type: ignore[union-attr]
        except OSError:
            self._cut_back(position)
            raise
        self.noted(position, size, base_offset, next_offset, max_timestamp)

    def append_run(self, parts: Sequence[Buffer], headers: Sequence[ScannedHeader]) -> None:
        """Write contiguous batches at once; their headers are as in the leader's file."""
        start = self.size
        try:
            self.file.write_at(start, parts)
        except OSError:
            self._cut_back(start)
            raise
        for header in headers:
            self.noted(self.size, header.size, header.base_offset, header.next_offset, counted_timestamp(header))

    def _cut_back(self, position: int) -> None:
        try:
            self.file.truncate(position)
        except OSError as worse:
            raise OSError(errno.EIO, f"cannot cut back a failed write: {worse}", self.path(LOG)) from worse

    def noted(self, position: int, size: int, base_offset: int, next_offset: int, max_timestamp: int) -> None:
        """Note the batch at `position`, which was written just now or found there."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = next_offset - 1
        if position == 0:
            self.first_timestamp = max_timestamp
        if self.since_entry > self.index_interval:
            self._add_entries(next_offset - 1, position)
        self.since_entry += size
        ends = self.ends
        ends.append(next_offset)
        self.positions.append(position)
        self.bases.append(base_offset)
        if len(ends) >= 2 * _RECENT:
            del ends[:_RECENT], self.positions[:_RECENT], self.bases[:_RECENT]
        self.size = position + size
        self.next_offset = next_offset

    def _add_entries(self, last_offset: int, position: int) -> None:
        self.index.add(last_offset - self.base_offset, position)
        self.add_last_time()
        self.since_entry = 0
        self.index_full = self.index.count >= self.max_entries

    def end_index(self) -> None:
        """Add an entry for the last batch, if it has none: a `.log` file of another length does not fit the index then.

        A segment without timestamps gets none, as its time index has none either.
        """
        last = self.index.last()
        if self.max_timestamp >= 0 and (last is None or last[1] != self.positions[-1]):
            self._add_entries(self.next_offset - 1, self.positions[-1])

    def add_last_time(self) -> None:
        """Add an entry for the largest timestamp so far, if it has none yet."""
        last = self.times.last()
        if self.max_timestamp >= 0 and (last is None or self.max_timestamp > last[0]):
            self.times.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def write_indexes(self) -> list[OpenFile]:
        """Put the indexes' entries into their files; return the files, which the next sync must cover."""
        self.add_last_time()
        self.index.write_out()
        self.times.write_out()
        files = [self.index.file(), self.times.file()]
        aborted = self.aborted.write_out()
        return files if aborted is None else [*files, aborted]

    def seal(self) -> None:
        """Close the indexes for writing, once `write_indexes` has put them into their files."""
        self.index.sealed()
        self.times.sealed()

    def forget_recent(self) -> None:
        self.ends, self.positions, self.bases = [], [], []

    # -- opening ---

    def open_sealed(self, next_offset: int) -> bool:
        """Take the files on disk as they are, unread; False where an index is missing or torn and has to be rebuilt."""
        self.size = self._disk.file_size(self.path(LOG))
        self.next_offset = next_offset
        sane = self.index.open_sealed() and self.times.open_sealed()
        if not sane:
            return False
        entry = self.times.last()
        if entry is not None:
            self.max_timestamp, self.max_timestamp_offset = entry[0], entry[1] + self.base_offset
        elif self.size and has_timestamps(self):
            return False
        self.index.close()
        self.times.close()
        return True

    def load_indexes(self) -> bool:
        """Load both indexes into memory, to go on writing; False if a file is missing."""
        return self.index.load() and self.times.load()

    def read_first_timestamp(self) -> int:
        """Largest timestamp of the first batch; -1 where there is none."""
        if self.first_timestamp < 0:
            for header in scan_headers(self.file, 0, self.size, chunk_bytes=64):
                self.first_timestamp = header.max_timestamp
                break
        return self.first_timestamp

    def restart_from(self, entries: int, header: ScannedHeader | None = None, *, at_once: bool = True) -> int:
        """Keep the indexes up to the first `entries` of the offset index; return the position to go on scanning from.

        That is the beginning of the file if the time index is wrong. `header`: the one of the last entry's batch, if
        known. `at_once`: cut the files too; else they stay until the next writing, as all that they hold is right.
        """
        assert self.index.keys is not None
        self.index.keep(entries, at_once=at_once)
        last = self.index.last()
        if last is None:
            self.dropped = next(iter(self.times.entries()), None)
            self.times.keep(0, at_once=at_once)
        else:
            sound = sound_times(self, last[0], header)
            if sound is None:
                return self.restart_from(0)
            kept, self.dropped = sound
            self.times.keep(kept, at_once=at_once)
        self.forget_recent()
        self.since_entry = 0
        self.index_full = False
        self.max_timestamp = self.max_timestamp_offset = -1
        time_entry = self.times.last()
        if time_entry is not None:
            self.max_timestamp, self.max_timestamp_offset = time_entry[0], time_entry[1] + self.base_offset
        self.size = last[1] if last is not None else 0
        self.next_offset = self.base_offset
        self.read_first_timestamp()
        return self.size

    def has_wrong_time(self, *, is_whole: bool) -> bool:
        """True if the scan did not find the time entry that was left out, though the entry belongs to what was scanned.

        An entry behind the end belongs to a lost batch; that is wrong only if the segment is known to be whole.
        """
        entry, self.dropped = self.dropped, None
        if entry is None:
            return False
        if self.base_offset + entry[1] >= self.next_offset:
            return is_whole
        return not is_time_of(self, entry)

    def note_header(self, header: ScannedHeader) -> None:
        """Note a batch met while scanning from `restart_from` on. The batch of the last entry gets no second entry."""
        self.noted(header.position, header.size, header.base_offset, header.next_offset, counted_timestamp(header))

    # -- reading ---

    def find(self, offset: int) -> FoundBatch | None:
        """The first batch whose last offset is at or above `offset`; None where this segment has none."""
        ends = self.ends
        if ends and offset >= self.bases[0]:
            at = bisect_right(ends, offset)
            if at == len(ends):
                return None
            position = self.positions[at]
            after = self.positions[at + 1] if at + 1 < len(ends) else self.size
            return FoundBatch(position, after - position, self.bases[at], ends[at])
        return find_by_index(self, offset)

    def limit_position(self, limit_offset: int) -> int:
        """The position in the file behind the batches that lie wholly below `limit_offset`."""
        if limit_offset >= self.next_offset:
            return self.size
        found = self.find(limit_offset)
        return self.size if found is None else found.position

    def headers_from(self, position: int) -> list[ScannedHeader]:
        return list(scan_headers(self.file, position, self.size))

    def headers_once(self, position: int) -> Iterator[ScannedHeader]:
        """The headers from a position on; a file that is opened for this is closed again after the last one."""
        opened = self._file is None
        try:
            yield from scan_headers(self.file, position, self.size, chunk_bytes=LOOK_BYTES)
        finally:
            if opened:
                self._release()

    def _release(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.release()

    # -- cutting and leaving ---

    def truncate(self, offset: int) -> None:
        """Drop the batches that reach to `offset` or above; this segment is the last and is written from now on."""
        if self.index.keys is None:
            self.index.load()
            self.times.load()
        assert self.index.keys is not None
        size = self.size
        at = bisect_right(self.index.keys, offset - 1 - self.base_offset)
        for header in scan_headers(self.file, self.restart_from(at), size):
            if not self.next_offset < header.next_offset <= offset:
                break  # a flipped bit may make a batch seem to lie below
            self.note_header(header)
        self.file.truncate(self.size)
        if self.size == 0:
            self.first_timestamp = -1
        self.aborted.cut_end(offset, base_offset=self.base_offset)

    def modified_ms(self) -> int:
        return self._disk.modified_ms(self.path(LOG))

    def close(self) -> None:
        """Close all files; slices that are still being sent keep theirs."""
        self.index.close()
        self.times.close()
        self.aborted.close()
        self._release()

    def relocate(self, directory: str) -> None:
        """Take the folder's new name."""
        self.directory = directory
        self.index.path, self.times.path = self.path(INDEX), self.path(TIME_INDEX)
        self.aborted.path = self.path(ABORTED_INDEX)

    def rename_files(self, old_suffix: str, new_suffix: str) -> None:
        """Give all files of the segment another last suffix ('' for none)."""
        for kind in SUFFIXES:
            old = self.path(kind) + old_suffix
            if self._disk.exists(old):
                self._disk.rename(old, self.path(kind) + new_suffix)
