"""Waits: one heap of deadlines with one timer for the whole broker, and the waits for a partition's commits.

All parts of the broker set their deadlines here. No request has a timer of its own (rule E1).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Protocol

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import EndOffset, LeaderEpoch
from ottla.kernel.seams import Clock, Timer
from ottla.kernel.story import Slot

_FEW = 1024


A_TURN = 50
"""Topics or resources that a long request may handle in one turn of the loop."""


def next_turn(clock: Clock) -> Slot[None]:
    """A slot for a story with much to do: awaiting it ends this turn of the loop."""
    slot: Slot[None] = Slot()
    clock.call_soon(lambda: slot.fill(None))
    return slot


class Deadline:
    """One entry of the heap; `cancel` costs nothing, the heap forgets it later."""

    __slots__ = ("at_ms", "callback")

    def __init__(self, at_ms: int, callback: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Deadlines:
    """Callbacks at given times of the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Deadline]] = []
        self._order = count()
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._tidy_at = _FEW

    def __len__(self) -> int:
        """The number of entries, with cancelled ones that are still in the heap."""
        return len(self._heap)

    def at(self, at_ms: int, callback: Callable[[], None]) -> Deadline:
        deadline = Deadline(at_ms, callback)
        heap = self._heap
        heapq.heappush(heap, (at_ms, next(self._order), deadline))
        if len(heap) > self._tidy_at:
            heap[:] = [entry for entry in heap if entry[2].callback is not None]
            heapq.heapify(heap)
            self._tidy_at = max(_FEW, 2 * len(heap))
        if self._timer is None or at_ms < self._timer_at_ms:
            self._arm(at_ms)
        return deadline

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Deadline:
        return self.at(self._clock.mono_ms() + delay_ms, callback)

    def now_ms(self) -> int:
        return self._clock.mono_ms()

    def _arm(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._clock.call_later(max(0, at_ms - self._clock.mono_ms()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_ms = self._clock.mono_ms()
        heap = self._heap
        try:
            while heap and (heap[0][0] <= now_ms or heap[0][2].callback is None):
                callback = heapq.heappop(heap)[2].callback
                if callback is not None:
                    callback()
        finally:  # a callback that fails must not skip the others
            if heap and (self._timer is None or heap[0][0] < self._timer_at_ms):
                self._arm(heap[0][0])


class Fillable(Protocol):
    """Anything that waits for a commit: a slot that a story awaits, or the answer of a Produce itself."""

    def fill(self, value: ErrorCode) -> None: ...


class _Wait:
    __slots__ = ("deadline_ms", "slot", "through")

    def __init__(self, through: int, deadline_ms: int, slot: Fillable) -> None:
        self.through = through
        self.deadline_ms = deadline_ms
        self.slot = slot


class CommitWaits:
    """The waits for the commit of one partition in one leader epoch, in offset order (rules A9, E1)."""

    __slots__ = ("_check", "_deadlines", "_waits", "epoch")

    def __init__(self, deadlines: Deadlines, epoch: LeaderEpoch) -> None:
        self.epoch = epoch
        self._deadlines = deadlines
        self._waits: deque[_Wait] = deque()
        self._check: Deadline | None = None

    @property
    def any(self) -> bool:
        """True if any request waits."""
        return bool(self._waits)

    def add(self, through: EndOffset, deadline_ms: int) -> Slot[ErrorCode]:
        """A slot: NONE once everything below `through` is committed, REQUEST_TIMED_OUT at the deadline."""
        slot: Slot[ErrorCode] = Slot()
        self.put(through, deadline_ms, slot)
        return slot

    def put(self, through: int, deadline_ms: int, slot: Fillable) -> None:
        """Like `add`, with the slot that takes the answer."""
        wait = _Wait(through, deadline_ms, slot)
        waits = self._waits
        if waits and waits[-1].through > through:
            self._insert(wait)
        else:
            waits.append(wait)
        if self._check is None or deadline_ms < self._check.at_ms:
            if self._check is not None:
                self._check.cancel()
            self._check = self._deadlines.at(deadline_ms, self._expire)

    def _insert(self, wait: _Wait) -> None:
        """Insert a wait in order: a duplicate waits for a lower offset than others (rule A10)."""
        place = next(index for index, other in enumerate(self._waits) if other.through > wait.through)
        self._waits.insert(place, wait)

    def committed(self, high_watermark: EndOffset, verdict: ErrorCode) -> None:
        """Release all waits up to `high_watermark` with `verdict` (20 if too few replicas are in sync)."""
        waits = self._waits
        while waits and waits[0].through <= high_watermark:
            waits.popleft().slot.fill(verdict)
        if not waits and self._check is not None:
            self._check.cancel()
            self._check = None

    def fail(self, error: ErrorCode) -> None:
        """End every wait with `error`: the epoch is lost."""
        waits, self._waits = self._waits, deque()
        for wait in waits:
            wait.slot.fill(error)

    def _expire(self) -> None:
        self._check = None
        if not self._waits:
            return
        now_ms = self._deadlines.now_ms()
        late = [wait for wait in self._waits if wait.deadline_ms <= now_ms]
        self._waits = deque(wait for wait in self._waits if wait.deadline_ms > now_ms)
        if self._waits:
            self._check = self._deadlines.at(min(wait.deadline_ms for wait in self._waits), self._expire)
        for wait in late:
            wait.slot.fill(ErrorCode.REQUEST_TIMED_OUT)
