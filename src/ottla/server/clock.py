"""Real time and randomness, as the broker's seams want them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from ottla.broker.broker_time import Uptime
from ottla.kernel.seams import Timer

_BOOT = "/proc/sys/kernel/random/boot_id"
_UPTIME = "/proc/uptime"


class LoopClock:
    """`kernel.seams.Clock` over an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def mono_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)


def system_uptime() -> Uptime | None:
    """The uptime by the kernel, which setting the clock does not change; None on systems without /proc."""
    try:
        with open(_BOOT, encoding="ascii") as boot, open(_UPTIME, encoding="ascii") as uptime:
            return Uptime(boot.read().strip(), int(float(uptime.read().split()[0]) * 1000))
    except (OSError, ValueError, IndexError):
        return None


class SystemEntropy:
    """`kernel.seams.Entropy` from the operating system."""

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)
