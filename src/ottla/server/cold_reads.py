"""Tells whether file pages are in memory, and reads those that are not in a thread, so that the loop never waits.

server/transport.py comes here before each sendfile of up to 1 MiB (rule E6).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ottla.kernel.seams import FileSlice

PIECE_BYTES = 1 << 20
_STEP_BYTES = 256 << 10
"""So much of a piece is read before it may be sent: the socket takes it while the disk brings the next."""
_PAGE = 4096
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_PROBE = bytearray(1)


def is_warm(descriptor: int, position: int, length: int) -> bool:
    """True if the first and the last page are in the page cache."""
    if not _NOWAIT:
        return True
    try:
        os.preadv(descriptor, [_PROBE], position, _NOWAIT)
        if length > _PAGE:
            os.preadv(descriptor, [_PROBE], position + length - 1, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system that cannot tell this
    return True


def read_warm(descriptor: int, position: int, length: int) -> bytes | None:
    """The bytes themselves, if all of them are in the page cache."""
    if not _NOWAIT:
        return None
    found = bytearray(length)
    try:
        read = os.preadv(descriptor, [found], position, _NOWAIT)
    except OSError:
        return None
    return bytes(found) if read == length else None


class ColdReads:
    """Warms pieces of files, one thread for all connections of a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool: ThreadPoolExecutor | None = None
        self._stopped = False

    def warm(self, descriptor: int, position: int, length: int, arrived: Callable[[int, bool], None]) -> None:
        """Read a piece into the page cache, step by step.

        `arrived` runs on the loop after each step: the position up to which all has been read, and whether that was the
        last step. The caller holds the file open until then.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "ottla-cold")
        self._pool.submit(self._read, descriptor, position, length, arrived)

    def warm_slice(self, piece: FileSlice, done: Callable[[], None]) -> bool:
        """True if the piece is in memory already; else `done` is called on the loop once it is."""
        file, descriptor = piece.file, piece.file.fileno()
        if descriptor < 0 or is_warm(descriptor, piece.position, piece.length):
            return True
        file.hold()

        def arrived(position: int, is_last: bool) -> None:
            if is_last:
                file.release()
                done()

        self.warm(descriptor, piece.position, piece.length, arrived)
        return False

    def _read(self, descriptor: int, position: int, length: int, arrived: Callable[[int, bool], None]) -> None:
        end = position + length
        try:
            while end - position > _STEP_BYTES and not self._stopped:
                os.pread(descriptor, _STEP_BYTES, position)
                position += _STEP_BYTES
                self._loop.call_soon_threadsafe(arrived, position, False)
            if not self._stopped:
                os.pread(descriptor, end - position, position)
        finally:
            self._loop.call_soon_threadsafe(arrived, end, True)

    def stop(self) -> None:
        """Wait for the step under way; what is left of all pieces is not read, though their ends are told."""
        self._stopped = True
        if self._pool is not None:
            self._pool.shutdown()
