"""The deadlines of one shard, each with a key. They are moved often and rarely come due."""

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


STOOD_STILL_MS = 500
"""The lateness from which on a process counts as having stood still; a process that is less late is busy."""


class KeyedDeadlines:
    """Keyed deadlines, which are postponed by the time that this process could not hear its members (rule A5).

    A process that stood still postpones them by all of that time. A busy one is a little late again and again, and
    hears its members in between: all that it postpones a deadline by is at most the deadline's own timeout.
    """

    def __init__(self) -> None:
        self._by_all = _Queue()
        """All deadlines, each postponed by all forgiven time."""
        self._bounded = _Queue()
        """The times beyond which a busy process may not move these deadlines."""
        self._stood_still_ms = 0
        self._busy_ms = 0

    def __len__(self) -> int:
        return len(self._by_all)

    def set(self, key: DeadlineKey, at_ms: int, *, timeout_ms: int | None = None) -> None:
        """Let `key` come due at `at_ms` and no other time.

        A busy process may postpone it by `timeout_ms` in all; None: without a bound.
        """
        at_ms -= self._stood_still_ms
        self._by_all.set(key, at_ms - self._busy_ms)
        if timeout_ms is None:
            self._bounded.cancel(key)
        else:
            self._bounded.set(key, at_ms + max(timeout_ms, 0))

    def cancel(self, key: DeadlineKey) -> None:
        self._by_all.cancel(key)
        self._bounded.cancel(key)

    def at(self, key: DeadlineKey) -> int | None:
        """The time at which `key` comes due; None if it is not set."""
        found = [at_ms for queue, shift in self._queues() if (at_ms := queue.at(key, shift)) is not None]
        return min(found, default=None)

    def next_ms(self) -> int | None:
        """The earliest deadline; None if there is none."""
        found = [at_ms for queue, shift in self._queues() if (at_ms := queue.next_ms(shift)) is not None]
        return min(found, default=None)

    def take(self, now_ms: int) -> DeadlineKey | None:
        """Remove a key that is due and return it; None if there is none."""
        for queue, shift in self._queues():
            at_ms = queue.next_ms(shift)
            if at_ms is not None and at_ms <= now_ms:
                key = queue.first()
                self.cancel(key)
                return key
        return None

    def postpone(self, by_ms: int) -> None:
        """Move all deadlines by the time in which this process could not hear its members."""
        if by_ms >= STOOD_STILL_MS:
            self._stood_still_ms += by_ms
        else:
            self._busy_ms += by_ms

    def _queues(self) -> tuple[tuple[_Queue, int], tuple[_Queue, int]]:
        """Both queues, each with the time by which its deadlines were postponed."""
        return (self._by_all, self._stood_still_ms + self._busy_ms), (self._bounded, self._stood_still_ms)


class _Queue:
    """Keys in a heap by time.

    A key that moves later costs a dictionary entry: the heap learns of it when the old entry comes up.
    """

    def __init__(self) -> None:
        self._at: dict[DeadlineKey, int] = {}
        self._queued: dict[DeadlineKey, int] = {}
        self._heap: list[tuple[int, int, DeadlineKey]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: DeadlineKey, at_ms: int) -> None:
        self._at[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._push(key, at_ms)

    def cancel(self, key: DeadlineKey) -> None:
        self._at.pop(key, None)

    def at(self, key: DeadlineKey, shift_ms: int) -> int | None:
        at_ms = self._at.get(key)
        return None if at_ms is None else at_ms + shift_ms

    def next_ms(self, shift_ms: int) -> int | None:
        self._settle()
        return self._heap[0][0] + shift_ms if self._heap else None

    def first(self) -> DeadlineKey:
        """The key of `next_ms`."""
        return self._heap[0][2]

    def _push(self, key: DeadlineKey, at_ms: int) -> None:
        self._queued[key] = at_ms
        heapq.heappush(self._heap, (at_ms, next(self._order), key))

    def _settle(self) -> None:
        """Drop or move outdated entries, until the top of the heap is a true one."""
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
