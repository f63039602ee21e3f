"""The four codecs, each by its library, imported at first use; decompression never gives more than it is allowed to."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import Buffer
from ottla.records.faults import CorruptRecords

if TYPE_CHECKING:
    from zstandard import ZstdCompressor

PRODUCED_LIMIT = 32 * 1024 * 1024
"""Most bytes that a produced batch's records may take decompressed, unless its topic takes larger batches."""
STORED_LIMIT = 1024 * 1024 * 1024
"""Most bytes that the records of a batch may take that a broker has accepted; Kafka's brokers know no limit."""

_CHUNK = 1024 * 1024
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024
_INT32 = Struct(">i")
_GZIP_WINDOW = 31
_LZ4_ROOM = 64 * 1024
_NEXT_MEMBER = 4096
"""The bytes that a second gzip member or lz4 frame is given first.

The unused ones are copied, so if each of many tiny members were given all the rest, that would take quadratic time.
"""
_ZSTD_USUAL_RATIO = 64
"""A frame that claims to hold more than this many times its size gets no memory on its word."""


class Codec(IntEnum):
    """A codec by its number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """`data` as every Kafka client can read it: snappy in Java's framing, lz4 in independent blocks.

    `level` None is the codec's own default (Kafka's compression.gzip.level, .lz4.level, .zstd.level).
    """
    return _COMPRESS[codec](data, level)


def decompress(codec: Codec, data: Buffer, limit: int = STORED_LIMIT) -> Buffer:
    """At most `limit` bytes. CorruptRecords where `data` is not what the codec writes (INVALID_RECORD) or holds more
    than the limit (MESSAGE_TOO_LARGE, upon which Kafka's clients split the batch)."""
    return _DECOMPRESS[codec](data, limit)


def _too_large(limit: int) -> CorruptRecords:
    return CorruptRecords(f"The records take more than {limit} bytes decompressed.", ErrorCode.MESSAGE_TOO_LARGE)


def _not_sound(codec: Codec, fault: Exception | str) -> CorruptRecords:
    return CorruptRecords(f"The {codec.name.lower()} data cannot be decompressed: {fault}", ErrorCode.INVALID_RECORD)


def _same(data: Buffer, _: int | None) -> bytes:
    return bytes(data)


def _same_within(data: Buffer, limit: int) -> Buffer:
    if len(data) > limit:
        raise _too_large(limit)
    return data


def _gzip(data: Buffer, level: int | None) -> bytes:
    return zlib.compress(data, -1 if level is None else level, _GZIP_WINDOW)


def _gunzip(data: Buffer, limit: int) -> bytes:
    """All members, one after the other, as Java's GZIPInputStream reads them."""
    view = memoryview(data)
    parts: list[bytes] = []
    left, position, window = limit, 0, len(view)
    while position < len(view) or not parts:
        step = zlib.decompressobj(_GZIP_WINDOW)
        while not step.eof:
            given = view[position : position + window]
            if not given:
                raise _not_sound(Codec.GZIP, "it ends too early")
            try:
                parts.append(step.decompress(given, left + 1))
            except zlib.error as fault:
                raise _not_sound(Codec.GZIP, fault) from fault
            left -= len(parts[-1])
            if left < 0:
                raise _too_large(limit)
            position += len(given) - len(step.unused_data)
            window *= 2
        window = _NEXT_MEMBER
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy(data: Buffer, _: int | None) -> bytes:
    """In xerial's framing, 32 KiB a block, which is what Java writes and everyone reads."""
    from cramjam import snappy

    out = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        out += (_INT32.pack(len(block)), block)
    return b"".join(out)


def _unsnappy(data: Buffer, limit: int) -> bytes:
    """Raw, or framed as xerial's: 16 bytes of header, then blocks, each after its length."""
    view = memoryview(data)
    if view[: len(_XERIAL)] != _XERIAL:
        return _unsnappy_block(view, limit, limit)
    parts: list[bytes] = []
    left, position, end = limit, len(_XERIAL_HEADER), len(view)
    if end < position:
        raise _not_sound(Codec.SNAPPY, "it ends within its header")
    while position < end:
        if end - position < 4:
            raise _not_sound(Codec.SNAPPY, "it ends within a block's length")
        (size,) = _INT32.unpack_from(view, position)
        position += 4
        if not 0 < size <= end - position:
            raise _not_sound(Codec.SNAPPY, f"a block of {size} bytes with {end - position} left")
        parts.append(_unsnappy_block(view[position : position + size], left, limit))
        left -= len(parts[-1])
        position += size
    return b"".join(parts)


def _unsnappy_block(block: memoryview, left: int, limit: int) -> bytes:
    """One raw block. Its claimed length is checked before anything is allocated: snappy cannot shrink below 1:64."""
    from cramjam import DecompressionError, snappy

    claimed = _snappy_length(block)
    if claimed > left:
        raise _too_large(limit)
    if claimed > 64 * len(block):
        raise _not_sound(Codec.SNAPPY, f"{len(block)} bytes cannot hold {claimed}")
    try:
        return bytes(snappy.decompress_raw(block))
    except DecompressionError as fault:
        raise _not_sound(Codec.SNAPPY, fault) from fault


def _snappy_length(block: memoryview) -> int:
    """The length that a raw block claims to hold: a varint of at most 5 bytes."""
    claimed = 0
    for index, byte in enumerate(block[:5]):
        claimed |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return claimed
    raise _not_sound(Codec.SNAPPY, "it has no length")


def _lz4(data: Buffer, level: int | None) -> bytes:
    """Independent blocks of 64 KiB: Java's reader takes no linked ones."""
    from lz4 import frame

    out: bytes = frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return out


def _unlz4(data: Buffer, limit: int) -> bytes:
    """Room grows with what comes: the library allocates at once whatever it is allowed."""
    from lz4.frame import LZ4FrameDecompressor

    view = memoryview(data)
    parts: list[bytes] = []
    left, position, window = limit, 0, len(view)
    while position < len(view) or not parts:
        step = LZ4FrameDecompressor()
        while not step.eof:
            given = view[position : position + window] if step.needs_input else view[:0]
            if step.needs_input and not given:
                raise _not_sound(Codec.LZ4, "it ends too early")
            try:
                parts.append(step.decompress(given, min(left + 1, max(_LZ4_ROOM, 8 * len(given)))))
            except RuntimeError as fault:
                raise _not_sound(Codec.LZ4, fault) from fault
            if not (given or parts[-1] or step.eof or step.needs_input):
                raise _not_sound(Codec.LZ4, "it ends too early")
            left -= len(parts[-1])
            if left < 0:
                raise _too_large(limit)
            position += len(given)
            window *= 2
        position -= len(step.unused_data or b"")
        window = _NEXT_MEMBER
    return parts[0] if len(parts) == 1 else b"".join(parts)


class _ZstdContexts(threading.local):
    """zstd's contexts cost more to make than a small batch to pack, and serve one thread at a time."""

    def __init__(self) -> None:
        from zstandard import ZstdDecompressor

        self.decompressor = ZstdDecompressor()
        self.compressors: dict[int, ZstdCompressor] = {}

    def compressor(self, level: int) -> ZstdCompressor:
        from zstandard import ZstdCompressor

        if level not in self.compressors:
            self.compressors[level] = ZstdCompressor(level=level)
        return self.compressors[level]


@cache
def _zstd_contexts() -> _ZstdContexts:
    return _ZstdContexts()


def _zstd(data: Buffer, level: int | None) -> bytes:
    return _zstd_contexts().compressor(3 if level is None else level).compress(data)


def _unzstd(data: Buffer, limit: int) -> bytes:
    """Frames with and without their content size, one or several after one another."""
    from zstandard import ZstdError, frame_content_size

    if not _zstd_is_whole(memoryview(data)):
        raise _not_sound(Codec.ZSTD, "it is cut off, or no zstd at all")
    try:
        claimed = frame_content_size(data)
        if 0 < claimed <= min(limit, max(_CHUNK, _ZSTD_USUAL_RATIO * len(data))):
            return _zstd_contexts().decompressor.decompress(data, allow_extra_data=False)
    except ZstdError:
        pass  # several frames, or damage: the stream tells which
    return _unzstd_stream(data, limit)


def _unzstd_stream(data: Buffer, limit: int) -> bytes:
    from zstandard import ZstdError

    parts: list[bytes] = []
    left = limit
    try:
        with _zstd_contexts().decompressor.stream_reader(data, read_across_frames=True) as stream:
            while part := stream.read(min(_CHUNK, left + 1)):
                parts.append(part)
                left -= len(part)
                if left < 0:
                    raise _too_large(limit)
    except ZstdError as fault:
        raise _not_sound(Codec.ZSTD, fault) from fault
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd_is_whole(view: memoryview) -> bool:
    """True if frames end where the data ends (RFC 8878, 3.1): the library's stream reader passes over a cut."""
    position, end = 0, len(view)
    while position < end:
        if end - position < 8:
            return False
        if bytes(view[position + 1 : position + 4]) == b"\x2a\x4d\x18" and view[position] >> 4 == 5:
            position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
            continue
        if bytes(view[position : position + 4]) != b"\x28\xb5\x2f\xfd":
            return False
        descriptor = view[position + 4]
        single_segment = descriptor >> 5 & 1
        position += 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
        position += (single_segment, 2, 4, 8)[descriptor >> 6]
        last = False
        while not last:
            if end - position < 3:
                return False
            block = int.from_bytes(view[position : position + 3], "little")
            last = bool(block & 1)
            position += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
        position += 4 if descriptor & 4 else 0
    return position == end and end > 0


_COMPRESS: dict[Codec, Callable[[Buffer, int | None], bytes]] = {
    Codec.NONE: _same,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_DECOMPRESS: dict[Codec, Callable[[Buffer, int], Buffer]] = {
    Codec.NONE: _same_within,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
