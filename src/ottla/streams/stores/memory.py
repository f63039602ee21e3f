"""Rows in memory."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterator
from typing import Any

from ottla.streams.stores.kept import FIRST, LAST, EntryKey

FRESH = 1_000
"""So many new keys are looked through one by one before they are sorted in."""


class SortedKeys:
    """The keys of a dict in order: a sorted list, and the keys that came since. Keys that are gone may be left."""

    def __init__(self, rows: dict[bytes, Any]) -> None:
        self._rows, self._sorted = rows, sorted(rows)
        self._fresh: list[bytes] = []

    def add(self, key: bytes) -> None:
        """Take in a key that was not there."""
        self._fresh.append(key)
        if len(self._fresh) > FRESH:
            self._sorted, self._fresh = sorted(self._rows.keys() | {key}), []

    def between(self, low: bytes | None, high: bytes | None) -> list[bytes]:
        """The keys between two, both included."""
        start = 0 if low is None else bisect.bisect_left(self._sorted, low)
        end = len(self._sorted) if high is None else bisect.bisect_right(self._sorted, high)
        fresh = [key for key in self._fresh if (low is None or low <= key) and (high is None or key <= high)]
        return sorted({key for key in (*self._sorted[start:end], *fresh) if key in self._rows})


class MemoryKeys:
    """Rows by key."""

    def __init__(self) -> None:
        self._rows: dict[bytes, Any] = {}
        self._keys: SortedKeys | None = None

    def get(self, key: EntryKey) -> Any:
        return self._rows.get(key[0])

    def set(self, key: EntryKey, entry: Any) -> None:
        data = key[0]
        if entry is None:
            self._rows.pop(data, None)
            return
        if self._keys is not None and data not in self._rows:
            self._keys.add(data)
        self._rows[data] = entry

    def walk(self, low: bytes | None = None, high: bytes | None = None) -> Iterator[tuple[EntryKey, Any]]:
        self._keys = self._keys or SortedKeys(self._rows)
        for data in self._keys.between(low, high):
            if (entry := self._rows.get(data)) is not None:
                yield (data,), entry

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        return (((data,), entry) for data, entry in self._rows.items())

    def __len__(self) -> int:
        return len(self._rows)


class MemoryTimes:
    """Rows by key and time; found by time alone only with `by_time`."""

    def __init__(self, *, by_time: bool = True) -> None:
        self._by_time = by_time
        self._rows: dict[bytes, dict[EntryKey, Any]] = {}
        self._at: dict[int, set[EntryKey]] = {}
        self._queue: list[int] = []

    def get(self, key: EntryKey) -> Any:
        rows = self._rows.get(key[0])
        return None if rows is None else rows.get(key)

    def set(self, key: EntryKey, entry: Any) -> None:
        data, time = key[0], key[1]
        if entry is not None:
            self._rows.setdefault(data, {})[key] = entry
            if not self._by_time:
                return
            if time not in self._at:
                heapq.heappush(self._queue, time)
                self._at[time] = set()
            self._at[time].add(key)
        elif self._rows.get(data, {}).pop(key, None) is not None:
            if self._by_time:
                self._at[time].discard(key)
                if not self._at[time]:
                    del self._at[time]
            if not self._rows[data]:
                del self._rows[data]

    def of(self, data: bytes, first: int = FIRST, last: int = LAST) -> list[tuple[EntryKey, Any]]:
        rows = self._rows.get(data)
        return [(key, rows[key]) for key in sorted(rows) if first <= key[1] <= last] if rows else []

    def walk(self, low: bytes | None = None, high: bytes | None = None) -> Iterator[tuple[EntryKey, Any]]:
        for data in sorted(self._rows):
            if (low is None or low <= data) and (high is None or data <= high):
                yield from self.of(data)

    def between(self, first: int = FIRST, last: int = LAST) -> Iterator[tuple[EntryKey, Any]]:
        for time in sorted(time for time in self._at if first <= time <= last):
            for key in sorted(self._at.get(time, ())):
                if (entry := self.get(key)) is not None:
                    yield key, entry

    def before(self, time: int) -> list[EntryKey]:
        times = set()
        while self._queue and self._queue[0] < time:
            times.add(heapq.heappop(self._queue))
        return [key for each in sorted(times) for key in sorted(self._at.get(each, ()))]

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        return (one for rows in self._rows.values() for one in rows.items())

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))


class MemoryQueue:
    """Rows in the order of their times, one of each key; the first one is at hand."""

    def __init__(self) -> None:
        self._rows: dict[bytes, tuple[EntryKey, Any]] = {}
        self._order: list[tuple[int, bytes]] = []

    def get(self, key: EntryKey) -> Any:
        found = self._rows.get(key[0])
        return found[1] if found is not None and found[0] == key else None

    def set(self, key: EntryKey, entry: Any) -> None:
        data, time = key
        there = self.get(key) is not None
        if entry is not None:
            if not there:
                bisect.insort(self._order, (time, data))
            self._rows[data] = key, entry
        elif there:
            del self._order[bisect.bisect_left(self._order, (time, data))]
            del self._rows[data]

    def of(self, data: bytes, first: int = FIRST, last: int = LAST) -> list[tuple[EntryKey, Any]]:
        found = self._rows.get(data)
        return [found] if found is not None and first <= found[0][1] <= last else []

    def between(self, first: int = FIRST, last: int = LAST) -> Iterator[tuple[EntryKey, Any]]:
        at = bisect.bisect_left(self._order, (first, b""))
        while at < len(self._order) and (place := self._order[at])[0] <= last:
            yield self._rows[place[1]]
            if at < len(self._order) and self._order[at] == place:
                at += 1

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        return iter(list(self._rows.values()))

    def __len__(self) -> int:
        return len(self._rows)
