"""Files and standard input as bytes: compressed ones unpacked, a byte order mark left out, truncated ones refused."""

from __future__ import annotations

import bz2
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ottla.cli.faults import BadInput

CHUNK_BYTES = 1 << 18
HEAD_BYTES = 1 << 16
_BOM = b"\xef\xbb\xbf"
_LONGEST_MAGIC = 6
STANDARD_INPUT = "-"


class InputSource:
    """One input. `head` is its beginning, unpacked; `chunks` gives all of it once, from the beginning."""

    def __init__(self, path: str) -> None:
        """`path` is a file, or `-` for standard input."""
        self.is_stdin = path == STANDARD_INPUT
        self.name = "standard input" if self.is_stdin else path
        self._stream: BinaryIO = sys.stdin.buffer if self.is_stdin else open(path, "rb")  # noqa: SIM115
        self.size = 0 if self.is_stdin else os.fstat(self._stream.fileno()).st_size
        """Bytes of the file; 0 where that is not known."""
        self.bytes_read = 0
        """Bytes of the file so far, before they are unpacked."""
        self.packed_as: str | None = None
        raw = self._raw()
        first = _at_least(raw, _LONGEST_MAGIC)
        self._chunks = self._unpacked(first, raw)
        self.head = _at_least(self._chunks, _LONGEST_MAGIC if self.is_stdin else HEAD_BYTES)
        self.head = self.head.removeprefix(_BOM)

    def chunks(self) -> Iterator[bytes]:
        """The bytes as they come."""
        if self.head:
            yield self.head
        yield from self._chunks

    def binary(self) -> BinaryIO:
        """The same bytes as a stream."""
        return io.BufferedReader(_Stream(self.chunks()), CHUNK_BYTES)

    def seekable(self) -> BinaryIO:
        """The whole content, for formats whose index is at the end."""
        if self.packed_as is None and not self.is_stdin and self._stream.seekable():
            self._stream.seek(0)
            return self._stream
        return io.BytesIO(b"".join(self.chunks()))

    def close(self) -> None:
        if not self.is_stdin:
            self._stream.close()

    def _raw(self) -> Iterator[bytes]:
        read: Callable[[int], bytes] = getattr(self._stream, "read1", self._stream.read)
        while chunk := read(CHUNK_BYTES):
            self.bytes_read += len(chunk)
            yield chunk

    def _unpacked(self, first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
        for magic, name in _ARCHIVES.items():
            if first.startswith(magic):
                raise BadInput(f"{self.name} is {name}: unpack it first")
        for magic, (name, make) in _PACKED.items():
            if first.startswith(magic):
                self.packed_as = name
                return _unpack(_with(first, rest), make, f"{self.name} ({name})")
        return _with(first, rest)


def extension(path: str) -> str:
    """The extension of a file's name in lower case, without that of its compression: `.csv` of `a.CSV.gz`."""
    name = Path(path.lower())
    return Path(name.stem).suffix if name.suffix in PACKED_EXTENSIONS else name.suffix


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


def _lz4() -> Any:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor()


_PACKED: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(zlib.MAX_WBITS | 16)),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"\x04\x22\x4d\x18": ("lz4", _lz4),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMADecompressor),
}
PACKED_EXTENSIONS = frozenset({".gz", ".zst", ".zstd", ".lz4", ".bz2", ".xz"})
_ARCHIVES = {
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"\xff\xfe": "text in UTF-16 and not in UTF-8",
    b"\xfe\xff": "text in UTF-16 and not in UTF-8",
}


def _unpack(chunks: Iterable[bytes], make: Callable[[], Any], name: str) -> Iterator[bytes]:
    """The content of one or several compressed streams, one behind the other; BadInput where one ends early."""
    one = make()
    inside = False
    for packed in chunks:
        left = packed
        while left:
            if not inside:
                left = left.lstrip(b"\0")  # padding between streams, which tapes and block devices leave
                if not left:
                    break
            try:
                content = one.decompress(left)
            except _damage() as fault:
                raise BadInput(f"{name} is damaged: {fault}") from None
            inside = True
            if content:
                yield content
            if not one.eof:
                break
            left, one, inside = one.unused_data or b"", make(), False
    if inside:
        raise BadInput(f"{name} ends early: the rest of the file is missing")


def _damage() -> tuple[type[Exception], ...]:
    """The errors that decompressors raise."""
    import zstandard

    return zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, RuntimeError


def _with(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _at_least(chunks: Iterator[bytes], size: int) -> bytes:
    """The first chunks, joined, until they have so many bytes; fewer at the end."""
    found = b""
    while len(found) < size and (chunk := next(chunks, b"")):
        found += chunk
    return found


class _Stream(io.RawIOBase):
    """Chunks as a stream that is read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
