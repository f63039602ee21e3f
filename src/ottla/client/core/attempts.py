"""The attempts of one call: how long they may go on, and growing pauses between them."""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.core.effects import Pause
from ottla.client.errors import may_retry


class Attempts:
    """The time that a call may take, and growing pauses between its attempts."""

    def __init__(
        self, now_ms: Callable[[], float], timeout_ms: float, first_pause_ms: float, longest_pause_ms: float
    ) -> None:
        self._now_ms = now_ms
        self._deadline = now_ms() + timeout_ms
        self._pause_ms = first_pause_ms
        self._longest_pause_ms = longest_pause_ms

    @property
    def left_ms(self) -> float:
        return self._deadline - self._now_ms()

    async def pause(self) -> bool:
        """Wait before the next attempt; False, at once, where there is no time for one."""
        if self._pause_ms >= self.left_ms:
            return False
        await Pause(self._pause_ms)
        self._pause_ms = min(self._pause_ms * 2, self._longest_pause_ms)
        return True

    async def after(self, error: Exception) -> None:
        """Wait before the next attempt; raise the error if another attempt would not help or comes too late."""
        if not may_retry(error) or not await self.pause():
            raise error
