"""The lease under which a broker answers as leader or coordinator (rule A12), renewed by round trips to the store."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.waiting import Deadlines
from ottla.kernel.seams import Clock


class Lease:
    """One broker's, of a fixed length in ms of the monotonic clock."""

    def __init__(self, clock: Clock, deadlines: Deadlines, length_ms: int) -> None:
        self.length_ms = length_ms
        self.on_lapse: Callable[[], None] = _nothing
        """Called when the lease has run out without renewal."""
        self._clock = clock
        self._deadlines = deadlines
        self._end_ms = -1
        self._watched = False
        self._closed = False

    def holds(self) -> bool:
        return self._clock.mono_ms() < self._end_ms

    def renew(self, sent_ms: int) -> None:
        """Renew: a round trip to the store that began at `sent_ms` has ended, and its entries are applied."""
        self._end_ms = max(self._end_ms, sent_ms + self.length_ms)
        if not self._watched:
            self._watched = True
            self._deadlines.at(self._end_ms, self._watch)

    def close(self) -> None:
        """Report the end of the lease no more."""
        self._closed = True

    def _watch(self) -> None:
        if self._closed:
            return
        self._watched = self.holds()
        if self._watched:
            self._deadlines.at(self._end_ms, self._watch)
        else:
            self.on_lapse()


def _nothing() -> None:
    """Do nothing at the end of the lease."""
