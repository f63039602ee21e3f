"""Compares the indexes of a closed segment with its batches, and builds them anew.

scrub.py checks them beside the batches, in one pass; broker/replicas/scrubber.py has them rebuilt. Reads pass
over a wrong entry, so they do not need sound indexes; but with sound ones they are faster, and find times. The
transaction index is compared with what its log knows of it, and written again from there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ottla.kernel.seams import Disk
from ottla.storage.checkpoint import clear_the_way
from ottla.storage.segment.aborted import ENTRY, Seal, entries_in, seal_of
from ottla.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.segment.names import ABORTED_INDEX, INDEX, LOG, TIME_INDEX
from ottla.storage.segment.scan import ScannedHeader, counted_timestamp, scan_headers
from ottla.storage.segment.segment import Segment

_HEADERS_IN_A_TURN = 2000


class IndexCheck:
    """The indexes of one segment, held against its batches as they go by."""

    def __init__(
        self, disk: Disk, path: str, base_offset: int, interval: int, aborted: tuple[int, int] | None = None
    ) -> None:
        """`path`: of the `.log` file. `interval`: bytes between two entries, 0 where it is not known.

        `aborted`: the seal of the transaction index (aborted.py); None where it is not known.
        """
        self.fault = ""
        self._base_offset = base_offset
        self._interval = interval
        self._entries = self._read(disk, path.removesuffix(LOG) + INDEX, OFFSET_ENTRY)
        self._times = self._read(disk, path.removesuffix(LOG) + TIME_INDEX, TIME_ENTRY)
        self._paired = self._times[-2][1] if len(self._times) > 1 else -1
        """The last time entry that came with an offset entry, if it was not added by a checkpoint."""
        self._at = self._at_time = self._since = 0
        self._newest = -1
        if aborted is not None and not self.fault:
            self._compare_aborted(disk, path.removesuffix(LOG) + ABORTED_INDEX, Seal(*aborted))

    def _compare_aborted(self, disk: Disk, path: str, seal: Seal) -> None:
        try:
            body = disk.read(path) if disk.exists(path) else b""
        except OSError as error:
            self.fault = f"{path} cannot be read ({error.strerror or error})"
            return
        if len(body) % ENTRY.size or seal_of(entries_in(body)) != seal:
            self.fault = f"{path} does not hold the aborted transactions that were written"

    def _read(self, disk: Disk, path: str, entry: struct.Struct) -> list[tuple[int, int]]:
        try:
            body = disk.read(path)
        except OSError as error:
            self.fault = f"{path} cannot be read ({error.strerror or error})"
            return []
        if len(body) % entry.size:
            self.fault = f"the last entry of {path} is torn"
        return [(key, value) for key, value in entry.iter_unpack(body[: len(body) - len(body) % entry.size])]

    def saw(self, header: ScannedHeader) -> None:
        """The next batch of the segment."""
        if self.fault:
            return
        last = header.last_offset - self._base_offset
        timestamp = counted_timestamp(header)
        self._newest = max(self._newest, timestamp)
        if self._at < len(self._entries) and self._entries[self._at][1] < header.position + header.size:
            if self._entries[self._at] != (last, header.position):
                self.fault = f"entry {self._at} of its offset index points at no batch"
            self._at, self._since = self._at + 1, 0
        elif self._at == len(self._entries) and 0 < self._interval < self._since and last <= self._paired:
            self.fault = "its offset index has lost its end"
        self._since += header.size
        if self._at_time < len(self._times) and self._times[self._at_time][1] <= last:
            newest, offset = self._times[self._at_time]
            if newest != timestamp or offset < header.base_offset - self._base_offset:
                self.fault = f"entry {self._at_time} of its time index is of no batch"
            self._at_time += 1

    def ended(self) -> str:
        """The fault, in words; "" where there is none."""
        if not self.fault and (self._at < len(self._entries) or self._at_time < len(self._times)):
            self.fault = "an entry points behind its end"
        if not self.fault and self._newest > (self._times[-1][0] if self._times else -1):
            self.fault = "its time index has lost its end"
        return self.fault


class RebuiltIndexes:
    """The indexes of a closed segment as its batches make them, a piece at a time."""

    def __init__(self, disk: Disk, segment: Segment) -> None:
        self._disk = disk
        self._segment = segment
        self._new = Segment(disk, segment.directory, segment.base_offset, created_ms=segment.created_ms)
        self._new.index_interval, self._new.max_entries = segment.index_interval, segment.max_entries

    def pieces(self) -> Iterator[None]:
        """Read all headers, a piece at a time; the caller may let others have their turn between two pieces."""
        for number, header in enumerate(scan_headers(self._segment.file, 0, self._segment.size)):
            self._new.note_header(header)
            self._new.forget_recent()
            if number % _HEADERS_IN_A_TURN == _HEADERS_IN_A_TURN - 1:
                yield

    def install(self) -> None:
        """Replace the files durably; a crash leaves neither, and the next start builds them."""
        new, old = self._new, self._segment
        new.add_last_time()
        for index, made in ((old.index, new.index), (old.times, new.times)):
            index.close()
            clear_the_way(self._disk, index.path)
            self._disk.remove(index.path)
            index.replace(made)
        old.aborted.rebuilt(old.aborted.entries)
        old.max_timestamp, old.max_timestamp_offset = new.max_timestamp, new.max_timestamp_offset
