"""Measures how late the loop runs its callbacks: a request waits for as long before it is decoded."""

from __future__ import annotations

import asyncio
import time

from ottla.metrics.histogram import Histogram

_EVERY_S = 0.1
_EVERY_NS = 100_000_000


class LoopDelay:
    """A timer of ten turns a second; `times` holds by how much each came too late."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0
        self.times = Histogram()

    def start(self) -> None:
        self._due_ns = time.monotonic_ns() + _EVERY_NS
        self._timer = self._loop.call_later(_EVERY_S, self._turn)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        self.times.add_ns(time.monotonic_ns() - self._due_ns)
        self.start()
