"""The deadlines of one shard: each has a key, is moved often and comes due rarely."""

from __future__ import annotations

import heapq
from enum import IntEnum
from itertools import count
from typing import NamedTuple


class DeadlineKind(IntEnum):
    SESSION = 0
    """A member, or one still to join with the id it was given, has not been heard of for its session timeout."""
    JOIN = 1
    """The members of a group had their time to join."""
    SYNC = 2
    """The members of a group had their time to ask for their assignment."""
    EXPIRY = 3
    """Time to look for offsets and groups past their retention."""
    CONSUMER_SESSION = 4
    """A member of a consumer group has not been heard of for the session timeout of its group."""
    REVOCATION = 5
    """A member of a consumer group had its time to give up partitions."""
    REGEX = 6
    """Time to go on matching the regular expressions of a group."""
    CLASSIC_JOIN = 7
    """A classic member of a consumer group was told to join again, and had its time to do so."""
    CLASSIC_SYNC = 8
    """A classic member of a consumer group had its time to ask for its assignment."""
    UNLED = 9
    """A group has become a classic one: its members must join again."""


class DeadlineKey(NamedTuple):
    kind: DeadlineKind
    group_id: str = ""
    member_id: str = ""


class Deadlines:
    """Keyed deadlines in a heap. Moving one later costs a dictionary entry: the heap learns of it when it comes up."""

    def __init__(self) -> None:
        self._at: dict[DeadlineKey, int] = {}
        self._queued: dict[DeadlineKey, int] = {}
        self._heap: list[tuple[int, int, DeadlineKey]] = []
        self._order = count()
        self._shift = 0

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: DeadlineKey, at_ms: int) -> None:
        """Let `key` come due at `at_ms` and no other time."""
        at_ms -= self._shift
        self._at[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._push(key, at_ms)

    def cancel(self, key: DeadlineKey) -> None:
        self._at.pop(key, None)

    def at(self, key: DeadlineKey) -> int | None:
        at_ms = self._at.get(key)
        return None if at_ms is None else at_ms + self._shift

    def next_ms(self) -> int | None:
        """When the earliest deadline is due; None where there is none."""
        self._settle()
        return self._heap[0][0] + self._shift if self._heap else None

    def take(self, now_ms: int) -> DeadlineKey | None:
        """Remove one that is due and return its key."""
        self._settle()
        if not self._heap or self._heap[0][0] + self._shift > now_ms:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._queued[key], self._at[key]
        return key

    def postpone(self, by_ms: int) -> None:
        """Move all deadlines: this process was not there to hear its members (rule A5)."""
        self._shift += by_ms

    def _push(self, key: DeadlineKey, at_ms: int) -> None:
        self._queued[key] = at_ms
        heapq.heappush(self._heap, (at_ms, next(self._order), key))

    def _settle(self) -> None:
        """Bring to the top of the heap an entry that is true."""
        heap = self._heap
        while heap:
            at_ms, _, key = heap[0]
            wanted = self._at.get(key)
            if wanted == at_ms and self._queued.get(key) == at_ms:
                return
            heapq.heappop(heap)
            if self._queued.get(key) == at_ms:
                del self._queued[key]
                if wanted is not None:
                    self._push(key, wanted)
