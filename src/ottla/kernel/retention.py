"""Rounds in which a coordinator's shard forgets what is too old."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class ExpiryRounds:
    """Rounds over all ids of a shard, in parts: a shard may have very many, and others wait while it looks at them."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        """`most`: the ids in a part."""
        self._most = most
        self._left: deque[str] = deque()

    @property
    def is_under_way(self) -> bool:
        """True if a round has ids left."""
        return bool(self._left)

    def next_part(self, ids: Iterable[str]) -> list[str]:
        """The next ids of this round, or of a new one over `ids`."""
        if not self._left:
            self._left.extend(ids)
        return [self._left.popleft() for _ in range(min(self._most, len(self._left)))]
