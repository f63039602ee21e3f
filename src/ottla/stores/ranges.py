"""Reading a remote file at random by few requests: its end is kept from the first, and short reads fetch ahead."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa

from ottla.stores.base import StoreUnreachable

TAIL_BYTES = 64 * 1024
"""Holds the footer of nearly every Parquet or Arrow file: fetched together with the size."""
AHEAD_BYTES = 1024 * 1024
"""A request asks for at least this much."""

Fetch = Callable[[int, int], "bytes | memoryview"]


class RangeFile:
    """A file as pyarrow reads it. At most one window and the tail are in memory, beside what a caller asks."""

    def __init__(self, size: int, fetch: Fetch, tail: bytes | memoryview = b"") -> None:
        self._size = size
        self._fetch = fetch
        self._position = 0
        self._tail = memoryview(tail)
        self._tail_from = size - len(self._tail)
        self._window = memoryview(b"")
        self._window_from = 0
        self.closed = False

    def size(self) -> int:
        return self._size

    def read(self, length: int = -1) -> bytes | memoryview:
        start = min(self._position, self._size)
        end = self._size if length < 0 else min(start + length, self._size)
        self._position = end
        return self._between(start, end) if end > start else b""

    def _between(self, start: int, end: int) -> memoryview:
        if start >= self._tail_from:
            return self._tail[start - self._tail_from : end - self._tail_from]
        at = self._window_from
        if at <= start and end <= at + len(self._window):
            return self._window[start - at : end - at]
        ahead = self._ask(start, min(max(end, start + AHEAD_BYTES), self._size))
        if end - start < AHEAD_BYTES:
            self._window, self._window_from = ahead, start
        return ahead[: end - start]

    def _ask(self, start: int, end: int) -> memoryview:
        """Never past the end: a client may crash on that."""
        found = memoryview(self._fetch(start, end))
        if len(found) != end - start:
            raise StoreUnreachable(f"the store answered {len(found)} bytes where {end - start} were asked for")
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True
        self._window = self._tail = memoryview(b"")
        self._tail_from = self._size

    def opened(self) -> pa.NativeFile:
        """An Arrow file over this one; Arrow takes a lock around each seek with its read."""
        return pa.PythonFile(self, mode="r")
