"""A server in a thread with a loop of its own, for programs that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

_START_S = 60.0
T = TypeVar("T", bound="LoopThread")


class LoopThread:
    """Holds what `opening` makes open in its thread, from `start` to `stop`; a context manager."""

    def __init__(self, name: str, opening: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._name = name
        self._opening = opening
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self: T) -> T:
        """Return once it is open; raise the error that kept it from opening."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[ready], name=self._name, daemon=True)
        self._thread.start()
        if not ready.wait(_START_S):
            raise TimeoutError(f"{self._name} was not ready within {_START_S:.0f} s")
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """Close it, and end the thread."""
        if self._loop is not None and self._stop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def __enter__(self: T) -> T:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._hold(ready))
        except BaseException as fault:
            self._failure = fault
        finally:
            ready.set()

    async def _hold(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._opening():
            ready.set()
            await self._stop.wait()
