"""The sparse indexes of a segment: offset to position, and time to offset, in Kafka's file formats.

While a segment is written its entries are kept in memory and go to the file at roll, checkpoint and close; a sealed
segment's entries are searched in the file. Indexes hold nothing that recovery could not build again.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right

from ottla.kernel.errors import InvariantBroken
from ottla.kernel.seams import Disk, OpenFile

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
_BLOCK_ENTRIES = 256
MAX_RELATIVE_OFFSET = 2**31 - 1
"""The farthest that a batch of a segment may lie from its base offset."""


class SparseIndex:
    """Entries (key, value) with rising keys: one file, and the entries themselves while the segment is written."""

    __slots__ = ("_disk", "_entry", "_file", "_last", "_on_disk", "_stale", "count", "keys", "path", "values")

    def __init__(self, disk: Disk, path: str, entry: struct.Struct) -> None:
        self._disk = disk
        self._entry = entry
        self._file: OpenFile | None = None
        self._last: tuple[int, int] | None = None
        """The last entry of a sealed index, once read."""
        self._on_disk = 0
        self._stale = False
        """True if the file holds more behind the entries that count."""
        self.path = path
        self.count = 0
        self.keys: array[int] | None = array("q")
        self.values: array[int] = array("i")

    # -- in memory ---

    def add(self, key: int, value: int) -> None:
        """Add an entry, only while the segment is written."""
        if self.keys is None:
            raise InvariantBroken(f"{self.path} is sealed, and gets an entry")
        self.keys.append(key)
        self.values.append(value)
        self.count += 1

    def load(self) -> bool:
        """Take the file's entries into memory, to go on writing; return whether there is a file."""
        self.keys = array("q")
        self.values = array("i")
        is_there = self._disk.exists(self.path)
        body = self._disk.read(self.path) if is_there else b""
        whole = len(body) - len(body) % self._entry.size
        for key, value in self._entry.iter_unpack(body[:whole]):
            self.keys.append(key)
            self.values.append(value)
        self.count = self._on_disk = len(self.keys)
        self._stale = False
        return is_there

    def sealed(self) -> None:
        """Forget the entries in memory: the file has them all."""
        if self._on_disk != self.count:
            raise InvariantBroken(f"{self.path} is sealed with {self._on_disk} of its {self.count} entries in the file")
        self.keys = self._last = None
        self.values = array("i")

    def open_sealed(self) -> bool:
        """Use the file as it is; False if it is missing, torn, or its keys do not end above their start."""
        try:
            size = self._disk.file_size(self.path)
        except FileNotFoundError:
            return False
        self.keys = self._last = None
        self.count = self._on_disk = count = size // self._entry.size
        if size % self._entry.size:
            return False
        if not count:
            return True
        few = count <= _BLOCK_ENTRIES
        block = self._block(0, count if few else 1)
        if len(block) < self._entry.size:
            return False
        first = self._entry.unpack_from(block)
        last = self._entry.unpack_from(block, len(block) - self._entry.size) if few else self._read(count - 1, 1)
        self._last = (last[0], last[1])
        return first[0] >= 0 <= last[1] and (count < 2 or last[0] >= first[0])

    def last(self) -> tuple[int, int] | None:
        """The last entry."""
        if self.count == 0:
            return None
        if self.keys is not None:
            return self.keys[-1], self.values[-1]
        if self._last is not None:
            return self._last
        key, value = self._entry.unpack(self._block(self.count - 1, 1))
        return key, value

    def floor(self, key: int) -> tuple[int, int] | None:
        """The last entry whose key is at most `key`."""
        if self.keys is not None:
            at = bisect_right(self.keys, key)
            return (self.keys[at - 1], self.values[at - 1]) if at else None
        return self._last_in_file(0, key)

    def floor_value(self, value: int) -> tuple[int, int] | None:
        """The last entry whose value is at most `value`, where values rise too."""
        if self.keys is not None:
            at = bisect_right(self.values, value)
            return (self.keys[at - 1], self.values[at - 1]) if at else None
        return self._last_in_file(1, value)

    def _last_in_file(self, part: int, limit: int) -> tuple[int, int] | None:
        """The last entry of the file whose key (part 0) or value (1) is at most `limit`."""
        low, high = 0, self.count  # entries before low are at or below the limit, those from high on are above
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self._read(middle, 1)[part] <= limit:
                low = middle
            else:
                high = middle
        found: tuple[int, int] | None = None
        for entry in self._entry.iter_unpack(self._block(low, high - low)):
            if entry[part] > limit:
                break
            found = (entry[0], entry[1])
        return found

    def entries(self) -> list[tuple[int, int]]:
        if self.keys is not None:
            return list(zip(self.keys, self.values, strict=True))
        return [(key, value) for key, value in self._entry.iter_unpack(self._block(0, self.count))]

    def keep(self, count: int, *, at_once: bool = True) -> None:
        """Drop all entries but the first `count`; in the file too, at once or with the next writing."""
        if self.keys is None:
            self.load()
        assert self.keys is not None
        del self.keys[count:], self.values[count:]
        self.count = min(self.count, count)
        if self._on_disk > count:
            self._on_disk = count
            self._stale = not at_once
            if at_once:
                self.file().truncate(count * self._entry.size)

    # -- the file ---

    def file(self) -> OpenFile:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def write_out(self) -> None:
        """Put the entries that the file does not have yet into it; unsynced."""
        if self.keys is None or (self._on_disk == self.count and self._file is not None and not self._stale):
            return
        pack = self._entry.pack
        first = self._on_disk
        body = b"".join(map(pack, self.keys[first:], self.values[first:]))
        file = self.file()
        if self._stale:
            file.truncate(first * self._entry.size)
            self._stale = False
        if body:
            file.write_at(first * self._entry.size, [body])
        self._on_disk = self.count

    def reset(self) -> None:
        """Begin again with no entries and an empty file."""
        self.keys = array("q")
        self.values = array("i")
        self.count = self._on_disk = 0
        self._stale = False
        self.file().truncate(0)

    def replace(self, made: SparseIndex) -> None:
        """Take the entries of another index, in memory, and write them to a new file durably."""
        self.keys, self.values = made.keys, made.values
        self.count, self._on_disk, self._stale = made.count, 0, False
        self.write_out()
        self.file().sync()
        self.sealed()
        self.close()

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.release()

    def _read(self, at: int, count: int) -> tuple[int, ...]:
        found: tuple[int, ...] = self._entry.unpack(self._block(at, count))
        return found

    def _block(self, at: int, count: int) -> bytes:
        size = self._entry.size
        return self.file().read_at(at * size, count * size) if count else b""  # an empty file need not be opened


def offset_index(disk: Disk, path: str) -> SparseIndex:
    """The offset index: from the last offset of a batch, relative to the segment's base, to the batch's position."""
    return SparseIndex(disk, path, OFFSET_ENTRY)


def time_index(disk: Disk, path: str) -> SparseIndex:
    """The time index: from the largest timestamp so far to the last offset (relative) of the batch that has it."""
    return SparseIndex(disk, path, TIME_ENTRY)
