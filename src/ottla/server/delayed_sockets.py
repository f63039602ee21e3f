"""Accepted sockets that are served or closed after a delay, as connections come too fast."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable


class DelayedSockets:
    """`close` closes those whose delay is not over."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """The sockets that wait, each of which holds a file descriptor."""
        return len(self._timers)

    def after(self, delay_ms: int, sock: socket.socket, then: Callable[[socket.socket], None]) -> None:
        def now() -> None:
            self._timers.pop(sock, None)
            then(sock)

        if delay_ms:
            self._timers[sock] = self._loop.call_later(delay_ms / 1000, now)
        else:
            now()

    def close(self) -> None:
        for sock, timer in self._timers.items():
            timer.cancel()
            sock.close()
        self._timers.clear()
