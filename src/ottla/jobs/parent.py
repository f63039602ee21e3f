"""The parent of a process that is to end with it: the parent holds the other end of standard input."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class _Parent(asyncio.Protocol):
    def __init__(self, gone: asyncio.Event) -> None:
        self._gone = gone

    def connection_lost(self, _error: Exception | None) -> None:
        self._gone.set()


@asynccontextmanager
async def parent_watched(gone: asyncio.Event) -> AsyncIterator[None]:
    """In this block, set `gone` when the parent has ended, however it did: the kernel closes its end of the pipe."""
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: _Parent(gone), sys.stdin)
    try:
        yield
    finally:
        pipe.close()
