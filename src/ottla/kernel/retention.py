"""Retention by the wall clock, which may jump: whoever deletes by age asks here first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class RetentionPause:
    """A forward jump of the wall clock larger than a tenth of the retention pauses deletion by time (rule B9).

    Wall and monotonic clock are compared from call to call. The pause lasts as long as the jump was, one retention
    at most; a jump back ends it.
    """

    __slots__ = ("_mono_ms", "_until_mono_ms", "_wall_ms")

    def __init__(self) -> None:
        self._wall_ms = self._mono_ms = -1
        self._until_mono_ms = -1

    def begin(self, wall_ms: int, mono_ms: int) -> None:
        """Take the present time as it is: jumps before now do not count."""
        self._wall_ms, self._mono_ms, self._until_mono_ms = wall_ms, mono_ms, -1

    def allows(self, wall_ms: int, mono_ms: int, retention_ms: int) -> bool:
        if self._mono_ms >= 0:
            jump = (wall_ms - self._wall_ms) - (mono_ms - self._mono_ms)
            if jump > retention_ms // 10:
                self._until_mono_ms = mono_ms + min(jump, retention_ms)
            elif jump < -(retention_ms // 10):
                self._until_mono_ms = -1
        self._wall_ms, self._mono_ms = wall_ms, mono_ms
        return mono_ms >= self._until_mono_ms


class ExpiryRounds:
    """Rounds over all ids of a shard, in parts: a shard may have very many, and others wait while it looks at them."""

    __slots__ = ("_left", "_most", "_pause")

    def __init__(self, most: int) -> None:
        """`most`: the ids in a part."""
        self._most = most
        self._left: deque[str] = deque()
        self._pause = RetentionPause()

    def begin(self, wall_ms: int, mono_ms: int) -> None:
        """Take the present time as it is: jumps before now do not count."""
        self._pause.begin(wall_ms, mono_ms)

    @property
    def is_under_way(self) -> bool:
        """True if a round has ids left."""
        return bool(self._left)

    def next_part(self, ids: Iterable[str], wall_ms: int, mono_ms: int, retention_ms: int) -> list[str]:
        """The next ids of this round, or of a new one over `ids`; none while the wall clock is in doubt."""
        if not self._left and self._pause.allows(wall_ms, mono_ms, retention_ms):
            self._left.extend(ids)
        return [self._left.popleft() for _ in range(min(self._most, len(self._left)))]
