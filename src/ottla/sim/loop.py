"""Virtual time: the turns of a loop drawn from a seed, so that the same seed gives the same run.

Stands in for `kernel.seams.Clock`. Time moves only when nothing is left to do at the present moment.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from hashlib import blake2b


class SimTimer:
    """A callback and its time; `cancel` before that drops it."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class SimLoop:
    """A clock and its turns. Callbacks due at the same microsecond run in an order drawn from the seed."""

    def __init__(self, seed: int, *, wall_start_ms: int = 1_700_000_000_000) -> None:
        self._random = random.Random(f"loop-{seed}")
        self._heap: list[tuple[int, float, int, SimTimer]] = []
        self._count = 0
        self._trace = blake2b(digest_size=16)
        self.now_us = 0
        self.wall_start_ms = wall_start_ms
        self.turns = 0
        self.on_note: Callable[[int, str], None] | None = None
        """Gets every line of the trace, with its virtual time in microseconds."""

    def mono_ms(self) -> int:
        return self.now_us // 1000

    def wall_ms(self) -> int:
        return self.wall_start_ms + self.now_us // 1000

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> SimTimer:
        return self.call_after_us(delay_ms * 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back in a later turn at the same moment, after all earlier calls of `call_soon`, as event loops do."""
        self._push(self.now_us, float(self._count), callback)

    def call_after_us(self, delay_us: int, callback: Callable[[], None]) -> SimTimer:
        return self._push(self.now_us + delay_us, self._random.random(), callback)

    def _push(self, at_us: int, rank: float, callback: Callable[[], None]) -> SimTimer:
        self._count += 1
        timer = SimTimer(callback)
        heapq.heappush(self._heap, (at_us, rank, self._count, timer))
        return timer

    def note(self, what: str) -> None:
        """Add a line to the trace; two runs of one seed have the same `trace_hash`."""
        self._trace.update(f"{self.now_us} {what}\n".encode())
        if self.on_note is not None:
            self.on_note(self.now_us, what)

    @property
    def trace_hash(self) -> str:
        return self._trace.hexdigest()

    @property
    def next_us(self) -> int | None:
        """The time of the next callback; None if there is none."""
        while self._heap and self._heap[0][3].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def turn(self) -> bool:
        """Run the next callback; False if there is none."""
        while self._heap:
            at_us, _, _, timer = heapq.heappop(self._heap)
            callback = timer.callback
            if callback is None:
                continue
            self.now_us = max(self.now_us, at_us)
            self.turns += 1
            callback()
            return True
        return False

    def run_until(self, reached: Callable[[], bool], *, within_ms: int) -> bool:
        """Turn until `reached`; False if that does not happen within so much virtual time."""
        limit_us = self.now_us + within_ms * 1000
        while not reached():
            if not self._heap or self._heap[0][0] > limit_us or not self.turn():
                return reached()
        return True

    def run_for(self, ms: int) -> None:
        """Turn for so much virtual time; the clock ends exactly there."""
        limit_us = self.now_us + ms * 1000
        while self._heap and self._heap[0][0] <= limit_us:
            self.turn()
        self.now_us = max(self.now_us, limit_us)
