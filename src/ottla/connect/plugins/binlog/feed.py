"""The events of a log in a bounded inbox: a thread fills it from the server, the loop empties it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

_MOST_BYTES: Final = 32 * 1024 * 1024
_MOST_EVENTS: Final = 4096


class Events(Protocol):
    """Gives events one by one, and can be closed while it waits."""

    def next(self) -> bytes: ...
    def close(self) -> None: ...


class Feed:
    """One thread that reads ahead so far as the inbox allows."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._inbox: deque[bytes] = deque()
        self._bytes = 0
        self._closed = False
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="binlog")
        self._filling = self._loop.run_in_executor(self._thread, self._fill)
        self._filling.add_done_callback(lambda _: self._arrived.set())

    def take(self) -> list[bytes]:
        """All events that have arrived; raises what ended the stream once they are taken."""
        with self._changed:
            found = list(self._inbox)
            self._inbox.clear()
            self._bytes = 0
            if not self._filling.done():
                self._arrived.clear()
            self._changed.notify()
        if not found and self._filling.done():
            self._filling.result()
        return found

    async def readable(self, timeout_s: float) -> None:
        """Wait until something arrives, or for so long."""
        try:
            await asyncio.wait_for(self._arrived.wait(), timeout_s)
        except TimeoutError:
            return

    async def close(self) -> None:
        """End the connection and the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._events.close()
        await asyncio.wait((self._filling,))
        self._filling.exception()  # the end of the connection
        self._thread.shutdown()

    def _fill(self) -> None:
        while True:
            event = self._events.next()
            with self._changed:
                while not self._closed and (self._bytes > _MOST_BYTES or len(self._inbox) >= _MOST_EVENTS):
                    self._changed.wait()
                if self._closed:
                    return
                was_empty = not self._inbox
                self._inbox.append(event)
                self._bytes += len(event)
            if was_empty:
                self._loop.call_soon_threadsafe(self._arrived.set)
