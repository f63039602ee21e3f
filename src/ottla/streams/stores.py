"""Stores in memory: rows by the bytes of their keys, and a list of the entries that changed.

Values are kept as bytes, so that nothing that a user's function does to a value later changes the store.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ottla.streams.serdes import Serde
from ottla.streams.values import Stamped, Windowed

EntryKey = tuple[Any, ...]
Entry = tuple[bytes, int]
"""A value's bytes and its timestamp."""


@dataclass(slots=True)
class Changes:
    """Entries of one store that changed since they were last taken; None stands for a deleted one."""

    entries: dict[EntryKey, Any] = field(default_factory=dict)

    def take(self) -> dict[EntryKey, Any]:
        """The changed entries; the list is empty after that."""
        taken, self.entries = self.entries, {}
        return taken


class KeyValueStore:
    """The newest value of each key, with its timestamp."""

    def __init__(self, name: str, key: Serde, value: Serde) -> None:
        self.name = name
        self.key, self.value = key, value
        self.changes = Changes()
        self._rows: dict[bytes, Entry] = {}

    def get(self, key: Any) -> Stamped | None:
        """The value of a key with its timestamp, or None."""
        entry = self._rows.get(self.key.write(key))
        return None if entry is None else Stamped(self.value.read(entry[0]), entry[1])

    def put(self, key: Any, value: Any, timestamp: int) -> bool:
        """Set a key's value, or delete it by None; true, since the value is now the newest one."""
        self.restore((self.key.write(key),), None if value is None else (self.value.to_bytes(value), timestamp))
        return True

    def all(self) -> Iterator[tuple[Any, Stamped]]:
        """Every key with its value, in the order of the keys' bytes."""
        return self.range(None, None)

    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Stamped]]:
        """The keys from `first` to `last`, both included, in the order of their bytes; None leaves an end open."""
        low, high = self.key.to_bytes(first), self.key.to_bytes(last)
        for key in sorted(self._rows):
            if (low is None or low <= key) and (high is None or key <= high):
                data, timestamp = self._rows[key]
                yield self.key.read(key), Stamped(self.value.read(data), timestamp)

    def prefix(self, start: bytes) -> Iterator[tuple[Any, Stamped]]:
        """The keys whose bytes begin with `start`."""
        for key in sorted(key for key in self._rows if key.startswith(start)):
            data, timestamp = self._rows[key]
            yield self.key.read(key), Stamped(self.value.read(data), timestamp)

    def restore(self, key: EntryKey, entry: Any) -> None:
        """Set one entry as `changes` reported it."""
        self.changes.entries[key] = entry
        if entry is None:
            self._rows.pop(key[0], None)
        else:
            self._rows[key[0]] = entry

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        """Every entry, as `restore` takes it."""
        return (((key,), entry) for key, entry in self._rows.items())

    def __len__(self) -> int:
        return len(self._rows)


class WindowStore:
    """Values by key and start of a window; entries older than the retention are dropped and not found."""

    def __init__(self, name: str, key: Serde, value: Serde, size_ms: int, retention_ms: int) -> None:
        self.name = name
        self.key, self.value = key, value
        self.size_ms, self.retention_ms = size_ms, retention_ms
        self.changes = Changes()
        self.expired = 0
        self.newest = -1
        self._rows: dict[bytes, dict[int, Any]] = {}
        self._starts: dict[int, set[bytes]] = {}
        self._queue: list[int] = []

    def fetch(self, key: Any, start: int) -> Stamped | None:
        """The value of a key's window that begins at `start`."""
        entry = self._rows.get(self.key.write(key), {}).get(start) if start >= self._oldest() else None
        return None if entry is None else Stamped(self.value.read(entry[0]), entry[1])

    def get(self, key: Windowed) -> Stamped | None:
        """The value of a windowed key."""
        return self.fetch(key.key, key.start)

    def put(self, key: Any, value: Any, timestamp: int, start: int) -> None:
        """Set the value of a key's window; one past the retention is dropped and counted."""
        self.newest = max(self.newest, start)
        if start < self._oldest():
            self.expired += 1
        else:
            self.restore(
                (self.key.write(key), start), None if value is None else (self.value.to_bytes(value), timestamp)
            )
        self._expire()

    def within(self, key: Any, first: int, last: int) -> list[tuple[int, Stamped]]:
        """The windows of a key whose start lies in [first, last], oldest first."""
        windows = self._rows.get(self.key.write(key), {})
        first = max(first, self._oldest())
        return [
            (start, Stamped(self.value.read(windows[start][0]), windows[start][1]))
            for start in sorted(windows)
            if first <= start <= last
        ]

    def all_within(self, first: int, last: int) -> list[tuple[Windowed, Stamped]]:
        """The windows of every key whose start lies in [first, last], by start and then by the keys' bytes."""
        first = max(first, self._oldest())
        found = []
        for start in sorted(start for start in self._starts if first <= start <= last):
            for key in sorted(self._starts[start]):
                data, timestamp = self._rows[key][start]
                window = Windowed(self.key.read(key), start, start + self.size_ms)
                found.append((window, Stamped(self.value.read(data), timestamp)))
        return found

    def all(self) -> Iterator[tuple[Windowed, Stamped]]:
        """Every window of every key."""
        return iter(self.all_within(0, max(self._starts, default=0)))

    def restore(self, key: EntryKey, entry: Any) -> None:
        """Set one entry as `changes` reported it."""
        self.changes.entries[key] = entry
        data, start = key
        self.newest = max(self.newest, start)
        if entry is not None:
            self._rows.setdefault(data, {})[start] = entry
            if start not in self._starts:
                heapq.heappush(self._queue, start)
            self._starts.setdefault(start, set()).add(data)
        elif self._rows.get(data, {}).pop(start, None) is not None:
            self._forget(data, start)

    def _oldest(self) -> int:
        return self.newest - self.retention_ms + 1

    def _expire(self) -> None:
        """Drop the windows past the retention."""
        while self._queue and self._queue[0] < self._oldest():
            start = heapq.heappop(self._queue)
            for key in sorted(self._starts.get(start, ())):
                self.restore((key, start), None)

    def _forget(self, key: bytes, start: int) -> None:
        self._starts[start].discard(key)
        if not self._starts[start]:
            del self._starts[start]
        if not self._rows[key]:
            del self._rows[key]

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        """Every entry, as `restore` takes it."""
        return (((key, start), entry) for key, rows in self._rows.items() for start, entry in rows.items())

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))


class JoinStore:
    """Every record of one side of a join by key and time, several of one time in order."""

    def __init__(self, name: str, key: Serde, value: Serde, retention_ms: int) -> None:
        self.name = name
        self.key, self.value, self.retention_ms = key, value, retention_ms
        self.changes = Changes()
        self.expired = 0
        self.newest = -1
        self._rows: dict[bytes, dict[int, tuple[bytes, ...]]] = {}
        self._times: dict[int, set[bytes]] = {}
        self._queue: list[int] = []

    def add(self, key: Any, value: Any, timestamp: int) -> None:
        """Keep one record; one past the retention is dropped and counted, and one without a value only moves time."""
        self.newest = max(self.newest, timestamp)
        if timestamp < self._oldest():
            self.expired += 1
        elif value is not None:
            data = self.key.write(key)
            before = self._rows.get(data, {}).get(timestamp, ())
            self.restore((data, timestamp), (*before, self.value.to_bytes(value)))
        while self._queue and self._queue[0] < self._oldest():
            time = heapq.heappop(self._queue)
            for data in sorted(self._times.get(time, ())):
                self.restore((data, time), None)

    def within(self, key: Any, first: int, last: int) -> list[tuple[int, Any]]:
        """(time, value) of a key's records in [first, last], oldest first."""
        rows = self._rows.get(self.key.write(key), {})
        first = max(first, self._oldest())
        return [(time, self.value.read(data)) for time in sorted(rows) if first <= time <= last for data in rows[time]]

    def restore(self, key: EntryKey, entry: Any) -> None:
        """Set one entry as `changes` reported it."""
        self.changes.entries[key] = entry
        data, time = key
        self.newest = max(self.newest, time)
        if entry is not None:
            self._rows.setdefault(data, {})[time] = entry
            if time not in self._times:
                heapq.heappush(self._queue, time)
            self._times.setdefault(time, set()).add(data)
        elif self._rows.get(data, {}).pop(time, None) is not None:
            self._times[time].discard(data)
            if not self._times[time]:
                del self._times[time]
            if not self._rows[data]:
                del self._rows[data]

    def _oldest(self) -> int:
        return self.newest - self.retention_ms + 1

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        """Every entry, as `restore` takes it."""
        return (((key, time), entry) for key, rows in self._rows.items() for time, entry in rows.items())

    def __len__(self) -> int:
        return sum(len(values) for rows in self._rows.values() for values in rows.values())


class SessionStore:
    """Values by key, start and end of a session."""

    def __init__(self, name: str, key: Serde, value: Serde, retention_ms: int) -> None:
        self.name = name
        self.key, self.value, self.retention_ms = key, value, retention_ms
        self.changes = Changes()
        self.expired = 0
        self.newest = -1
        self._rows: dict[bytes, dict[tuple[int, int], bytes]] = {}
        self._queue: list[tuple[int, bytes, int]] = []

    def find(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[Windowed, Any]]:
        """The sessions of a key that end at or after one time and start at or before another, by end."""
        sessions = self._rows.get(self.key.write(key), {})
        earliest_end = max(earliest_end, self._oldest())
        return [
            (Windowed(key, start, end), self.value.read(sessions[end, start]))
            for end, start in sorted(sessions)
            if end >= earliest_end and start <= latest_start
        ]

    def get(self, key: Windowed) -> Stamped | None:
        """The value of one session, stamped with its end."""
        data = self._rows.get(self.key.write(key.key), {}).get((key.end, key.start))
        return None if data is None or key.end < self._oldest() else Stamped(self.value.read(data), key.end)

    def put(self, session: Windowed, value: Any) -> None:
        """Set a session's value, or remove the session by None; one past the retention is dropped and counted."""
        self.newest = max(self.newest, session.end)
        if session.end < self._oldest():
            self.expired += 1
        else:
            self.restore((self.key.write(session.key), session.end, session.start), self.value.to_bytes(value))
        while self._queue and self._queue[0][0] < self._oldest():
            end, key, start = heapq.heappop(self._queue)
            if (end, start) in self._rows.get(key, {}):
                self.restore((key, end, start), None)

    def ended_within(self, first: int, last: int) -> list[tuple[Windowed, Any]]:
        """The sessions of every key that ended in [first, last], by end, key and start."""
        first = max(first, self._oldest())
        found = sorted(
            (end, key, start) for key, sessions in self._rows.items() for end, start in sessions if first <= end <= last
        )
        return [
            (Windowed(self.key.read(key), start, end), self.value.read(self._rows[key][end, start]))
            for end, key, start in found
        ]

    def all(self) -> Iterator[tuple[Windowed, Stamped]]:
        """Every session of every key."""
        return ((window, Stamped(value, window.end)) for window, value in self.ended_within(0, self.newest))

    def restore(self, key: EntryKey, entry: Any) -> None:
        """Set one entry as `changes` reported it."""
        self.changes.entries[key] = entry
        data, end, start = key
        self.newest = max(self.newest, end)
        if entry is not None:
            sessions = self._rows.setdefault(data, {})
            if (end, start) not in sessions:
                heapq.heappush(self._queue, (end, data, start))
            sessions[end, start] = entry
        elif self._rows.get(data, {}).pop((end, start), None) is not None and not self._rows[data]:
            del self._rows[data]

    def _oldest(self) -> int:
        return self.newest - self.retention_ms + 1

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        """Every entry, as `restore` takes it."""
        return (((key, *at), entry) for key, rows in self._rows.items() for at, entry in rows.items())

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))


class OrderedStore:
    """Bytes by a time and a key, taken from the oldest on: rows that wait. `holds` says in words what they are."""

    def __init__(self, name: str, holds: str) -> None:
        self.name, self.holds = name, holds
        self.changes = Changes()
        self._rows: dict[tuple[int, bytes], bytes] = {}
        self._time_of: dict[bytes, int] = {}
        self._order: list[tuple[int, bytes]] = []

    def put(self, time: int, key: bytes, entry: bytes) -> None:
        """Keep an entry; a key that waits already keeps its place in time."""
        self.restore((self._time_of.get(key, time), key), entry)

    def get(self, key: bytes) -> bytes | None:
        """The entry that waits under a key, or None."""
        time = self._time_of.get(key)
        return None if time is None else self._rows[time, key]

    def remove(self, key: bytes) -> None:
        """Forget an entry, if it is there."""
        if key in self._time_of:
            self.restore((self._time_of[key], key), None)

    def oldest(self) -> tuple[int, bytes, bytes] | None:
        """The time, the key and the entry that came first."""
        return next(self.in_order(), None)

    def in_order(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Every entry, by time and then by key; the one that was given last may be removed meanwhile."""
        at = 0
        while at < len(self._order):
            place = self._order[at]
            yield (*place, self._rows[place])
            if at < len(self._order) and self._order[at] == place:
                at += 1

    def restore(self, key: EntryKey, entry: Any) -> None:
        """Set one entry as `changes` reported it."""
        self.changes.entries[key] = entry
        time, data = key
        if entry is not None:
            if (time, data) not in self._rows:
                bisect.insort(self._order, (time, data))
            self._rows[time, data] = entry
            self._time_of[data] = time
        elif self._rows.pop((time, data), None) is not None:
            del self._order[bisect.bisect_left(self._order, (time, data))]
            self._time_of.pop(data, None)

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        """Every entry, as `restore` takes it."""
        return iter(self._rows.items())

    def __len__(self) -> int:
        return len(self._rows)


Store = KeyValueStore | WindowStore | JoinStore | SessionStore | OrderedStore
StoreMaker = Callable[[], Store]
AnyStore = TypeVar("AnyStore", bound=Store)
