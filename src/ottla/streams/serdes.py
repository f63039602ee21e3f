"""Serdes: keys and values to the bytes of topics and stores, as Kafka's own serdes write them.

A null key or value is None on both sides and meets no serde.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.streams.errors import SerdeError
from ottla.streams.values import Change, Headers, Windowed


@dataclass(frozen=True, slots=True)
class Serde:
    """A name for messages, and the two directions; neither is called with None."""

    name: str
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]
    read_all: Callable[[list[bytes]], list[Any]] | None = None
    """Reads many at once where that costs less; a ValueError stands in the place of one that cannot be read."""

    def to_bytes(self, value: Any) -> bytes | None:
        """The bytes of a value; SerdeError if the serde cannot hold it."""
        if value is None:
            return None
        try:
            return self.write(value)
        except (TypeError, ValueError, AttributeError, struct.error, RecursionError) as error:
            raise SerdeError(
                f"the serde {self.name} cannot write {value!r:.80} ({type(value).__name__}): {error}; "
                "name the serde that fits where the key or value is made"
            ) from error

    def from_bytes(self, data: bytes | None) -> Any:
        """The value of bytes; SerdeError if they are not of this serde."""
        if data is None:
            return None
        try:
            return self.read(data)
        except (TypeError, ValueError, struct.error, RecursionError) as error:
            raise SerdeError(f"the serde {self.name} cannot read {data[:40]!r}: {error}") from error

    def from_bytes_of(self, datas: list[bytes | None]) -> list[Any]:
        """The values of many; a SerdeError stands in the place of one that is not of this serde."""
        assert self.read_all is not None
        values = iter(self.read_all([data for data in datas if data is not None]))
        read = [None if data is None else next(values) for data in datas]
        return [
            SerdeError(f"the serde {self.name} cannot read {data[:40]!r}: {value}")
            if isinstance(value, ValueError) and data is not None
            else value
            for data, value in zip(datas, read, strict=True)
        ]


def whole(value: Any) -> Any:
    """A result of `read_all`, or its error raised."""
    if isinstance(value, ValueError):
        raise value
    return value


def _bytes_of(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("not bytes")
    return bytes(value)


def _text_of(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value.encode()


def _json_of(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _number(name: str, code: str, kind: type) -> Serde:
    packed = struct.Struct(">" + code)

    def write(value: Any) -> bytes:
        if isinstance(value, bool) or not isinstance(value, kind):
            raise TypeError(f"not {kind.__name__}")
        return packed.pack(value)

    return Serde(name, write, lambda data: packed.unpack(data)[0])


BYTES = Serde("bytes", _bytes_of, bytes)
TEXT = Serde("text", _text_of, lambda data: data.decode())
JSON = Serde("json", _json_of, json.loads)
INT16 = _number("int16", "h", int)
INT32 = _number("int32", "i", int)
INT64 = _number("int64", "q", int)
FLOAT32 = _number("float32", "f", float)
FLOAT64 = _number("float64", "d", float)

BY_NAME = {serde.name: serde for serde in (BYTES, TEXT, JSON, INT16, INT32, INT64, FLOAT32, FLOAT64)}

LONG = struct.Struct(">q")
TWO_LONGS = struct.Struct(">qq")
_LENGTH = struct.Struct(">i")


def time_windowed(inner: Serde, size_ms: int) -> Serde:
    """Keys of time and sliding windows: the key, then the window's start (Kafka's TimeWindowedSerializer)."""

    def write(key: Any) -> bytes:
        return inner.write(_windowed(key).key) + LONG.pack(key.start)

    def read(data: bytes) -> Windowed:
        (start,) = LONG.unpack(data[-8:])
        return Windowed(inner.read(data[:-8]), start, start + size_ms)

    return Serde(f"windowed {inner.name}", write, read)


def session_windowed(inner: Serde) -> Serde:
    """Keys of sessions: the key, the session's end, its start (Kafka's SessionWindowedSerializer)."""

    def write(key: Any) -> bytes:
        return inner.write(_windowed(key).key) + TWO_LONGS.pack(key.end, key.start)

    def read(data: bytes) -> Windowed:
        end, start = TWO_LONGS.unpack(data[-16:])
        return Windowed(inner.read(data[:-16]), start, end)

    return Serde(f"session-windowed {inner.name}", write, read)


def _windowed(key: Any) -> Windowed:
    if not isinstance(key, Windowed):
        raise TypeError("not a windowed key")
    return key


def joined(values: Iterable[bytes]) -> bytes:
    """Several values in a row, each behind its length."""
    return b"".join(_LENGTH.pack(len(value)) + value for value in values)


def parted(data: bytes) -> tuple[bytes, ...]:
    """The values that `joined` put in a row."""
    found, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        found.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return tuple(found)


def flagged(value: bytes | None) -> bytes:
    """Bytes that may be null: empty for null, else behind a flag."""
    return b"" if value is None else b"+" + value


def header_parts(headers: Headers) -> list[bytes]:
    """Headers as parts for `joined`: names and values in turn."""
    parts = []
    for name, value in headers:
        parts += [name.encode(), flagged(value)]
    return parts


def headers_of(parts: Sequence[bytes]) -> Headers:
    """The headers that `header_parts` wrote; a part at the end that has no pair is left out."""
    pairs = zip(parts[::2], parts[1::2], strict=False)
    return tuple((name.decode(), value[1:] if value else None) for name, value in pairs)


def changes(inner: Serde) -> Serde:
    """Changes of a table on their way through a repartition topic: a flag byte, the old value's length, both values."""

    def write(change: Any) -> bytes:
        old, new = inner.to_bytes(change.old), inner.to_bytes(change.new)
        flags = (old is not None) | (new is not None) << 1 | change.latest << 2
        return bytes((flags,)) + struct.pack(">i", len(old or b"")) + (old or b"") + (new or b"")

    def read(data: bytes) -> Change:
        flags, (length,) = data[0], struct.unpack(">i", data[1:5])
        old = inner.from_bytes(data[5 : 5 + length]) if flags & 1 else None
        new = inner.from_bytes(data[5 + length :]) if flags & 2 else None
        return Change(new, old, bool(flags & 4))

    return Serde(f"changes of {inner.name}", write, read)
