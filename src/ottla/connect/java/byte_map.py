"""A Java object of one shape: a HashMap from byte[] to byte[], as Kafka's standalone worker writes its offsets. Pure.

Other objects are refused. Written bytes are those of Java for the same entries in the same order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

STREAM: Final = b"\xac\xed\x00\x05"
"""The beginning of every stream of Java objects."""
_MAP: Final = (
    STREAM + b"sr\x00\x11java.util.HashMap" + bytes.fromhex("0507dac1c31660d1") + b"\x03\x00\x02"
    b"F\x00\x0aloadFactorI\x00\x09thresholdxp"
)
_SIZES: Final = struct.Struct(">fiBBii")
"""The load factor, the threshold, the mark and the length of a block of 8 bytes, the buckets, the number of entries."""
_BLOCK: Final = (0x77, 8)
_ARRAY: Final = b"ur\x00\x02[B" + bytes.fromhex("acf317f8060854e0") + b"\x02\x00\x00xp"
_ARRAY_AGAIN: Final = b"uq\x00\x7e\x00\x02"
_NULL: Final = b"p"
_END: Final = b"x"
_LOAD_FACTOR: Final = 0.75
_FIRST_BUCKETS: Final = 16
Entry = tuple[bytes, bytes | None]


def read_map(content: bytes) -> list[Entry]:
    """The entries of a map; ValueError for anything else."""
    if not content.startswith(_MAP):
        raise ValueError("it is not a java.util.HashMap")
    reading = _Reading(content, len(_MAP))
    *_, mark, length, _, count = _SIZES.unpack(reading.take(_SIZES.size))
    if (mark, length) != _BLOCK:
        raise ValueError(f"the map has no count of its entries at byte {len(_MAP)}")
    entries: list[Entry] = []
    for _ in range(count):
        key, value = reading.array(), reading.array()
        if key is None:
            raise ValueError(f"a key is null before byte {reading.position}")
        entries.append((key, value))
    if reading.take(1) != _END or reading.position != len(content):
        raise ValueError(f"the map does not end at byte {reading.position}")
    return entries


def written_map(entries: Sequence[Entry]) -> bytes:
    """A map of these entries."""
    buckets = _FIRST_BUCKETS
    while len(entries) > buckets * _LOAD_FACTOR:
        buckets *= 2
    parts = [_MAP, _SIZES.pack(_LOAD_FACTOR, int(buckets * _LOAD_FACTOR), *_BLOCK, buckets, len(entries))]
    start = _ARRAY
    for each in (half for entry in entries for half in entry):
        if each is None:
            parts.append(_NULL)
            continue
        parts += (start, struct.pack(">i", len(each)), each)
        start = _ARRAY_AGAIN
    return b"".join((*parts, _END))


class _Reading:
    """The bytes from a position on."""

    def __init__(self, content: bytes, position: int) -> None:
        self._content, self.position = content, position

    def take(self, size: int) -> bytes:
        taken = self._content[self.position : self.position + size]
        if size < 0 or len(taken) != size:
            raise ValueError(f"the file ends at byte {len(self._content)}, in the middle of the map")
        self.position += size
        return taken

    def array(self) -> bytes | None:
        """The next array of bytes, or None for null."""
        for start in (_NULL, _ARRAY_AGAIN, _ARRAY):
            if self._content.startswith(start, self.position):
                self.position += len(start)
                return None if start is _NULL else self.take(int.from_bytes(self.take(4), signed=True))
        raise ValueError(f"the map has something else than byte[] at byte {self.position}")
