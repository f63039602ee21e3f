"""Stores of windows, of sessions, and of the records that joins keep; entries past the retention are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.streams.serdes import Serde
from ottla.streams.stores.kept import Changes, EntryKey, Form, RowMaker, TimedRows
from ottla.streams.stores.memory import MemoryTimes
from ottla.streams.values import Stamped, Windowed


class _Timed:
    """The parts in common: rows, the newest time, the retention."""

    times = 1
    form: Form = "stamped"

    def __init__(self, name: str, key: Serde, value: Serde, retention_ms: int) -> None:
        self.name = name
        self.key, self.value, self.retention_ms = key, value, retention_ms
        self.changes = Changes()
        self.expired = 0
        self.newest = -1
        self._rows: TimedRows = MemoryTimes()

    def keep_in(self, maker: RowMaker) -> None:
        """Keep the rows elsewhere than in memory; there are none yet."""
        self._rows = maker.rows(times=self.times, form=self.form, by_time=True)

    def restore(self, key: EntryKey, entry: Any) -> None:
        """Set one entry as `changes` reported it."""
        self.changes.entries[key] = entry
        self.newest = max(self.newest, key[1])
        self._rows.set(key, entry)

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        """Every entry, as `restore` takes it."""
        return self._rows.entries()

    def _admits(self, time: int) -> bool:
        """Move time; False, and counted, for a time past the retention."""
        self.newest = max(self.newest, time)
        if time < self._oldest():
            self.expired += 1
            return False
        return True

    def _oldest(self) -> int:
        return self.newest - self.retention_ms + 1

    def _expire(self) -> None:
        for key in self._rows.before(self._oldest()):
            self.restore(key, None)

    def __len__(self) -> int:
        return len(self._rows)


class WindowStore(_Timed):
    """Values by key and start of a window."""

    def __init__(self, name: str, key: Serde, value: Serde, size_ms: int, retention_ms: int) -> None:
        super().__init__(name, key, value, retention_ms)
        self.size_ms = size_ms

    def fetch(self, key: Any, start: int) -> Stamped | None:
        """The value of a key's window that begins at `start`."""
        entry = self._rows.get((self.key.write(key), start)) if start >= self._oldest() else None
        return None if entry is None else Stamped(self.value.read(entry[0]), entry[1])

    def get(self, key: Windowed) -> Stamped | None:
        """The value of a windowed key."""
        return self.fetch(key.key, key.start)

    def put(self, key: Any, value: Any, timestamp: int, start: int) -> None:
        """Set the value of a key's window; one past the retention is dropped and counted."""
        if self._admits(start):
            self.restore(
                (self.key.write(key), start), None if value is None else (self.value.to_bytes(value), timestamp)
            )
        self._expire()

    def within(self, key: Any, first: int, last: int) -> list[tuple[int, Stamped]]:
        """The windows of a key whose start lies in [first, last], oldest first."""
        found = self._rows.of(self.key.write(key), max(first, self._oldest()), last)
        return [(start, Stamped(self.value.read(data), timestamp)) for (_, start), (data, timestamp) in found]

    def all_within(self, first: int, last: int) -> Iterator[tuple[Windowed, Stamped]]:
        """The windows of every key whose start lies in [first, last], by start and then by the keys' bytes."""
        found = self._rows.between(max(first, self._oldest()), last)
        return (
            (Windowed(self.key.read(key), start, start + self.size_ms), Stamped(self.value.read(data), timestamp))
            for (key, start), (data, timestamp) in found
        )

    def all(self) -> Iterator[tuple[Windowed, Stamped]]:
        """Every window of every key."""
        return self.all_within(0, max(0, self.newest))


class JoinStore(_Timed):
    """Every record of one side of a join by key and time, several of one time in order."""

    form: Form = "several"

    def add(self, key: Any, value: Any, timestamp: int) -> None:
        """Keep one record; one past the retention is dropped and counted, and one without a value only moves time."""
        if self._admits(timestamp) and value is not None:
            at = self.key.write(key), timestamp
            self.restore(at, (*(self._rows.get(at) or ()), self.value.to_bytes(value)))
        self._expire()

    def within(self, key: Any, first: int, last: int) -> list[tuple[int, Any]]:
        """(time, value) of a key's records in [first, last], oldest first."""
        found = self._rows.of(self.key.write(key), max(first, self._oldest()), last)
        return [(time, self.value.read(data)) for (_, time), datas in found for data in datas]


class SessionStore(_Timed):
    """Values by key, end and start of a session."""

    times = 2
    form: Form = "bytes"

    def find(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[Windowed, Any]]:
        """The sessions of a key that end at or after one time and start at or before another, by end."""
        found = self._rows.of(self.key.write(key), max(earliest_end, self._oldest()))
        return [
            (Windowed(key, start, end), self.value.read(data))
            for (_, end, start), data in found
            if start <= latest_start
        ]

    def get(self, key: Windowed) -> Stamped | None:
        """The value of one session, stamped with its end."""
        data = None if key.end < self._oldest() else self._rows.get((self.key.write(key.key), key.end, key.start))
        return None if data is None else Stamped(self.value.read(data), key.end)

    def put(self, session: Windowed, value: Any) -> None:
        """Set a session's value, or remove the session by None; one past the retention is dropped and counted."""
        if self._admits(session.end):
            self.restore((self.key.write(session.key), session.end, session.start), self.value.to_bytes(value))
        self._expire()

    def ended_within(self, first: int, last: int) -> Iterator[tuple[Windowed, Any]]:
        """The sessions of every key that ended in [first, last], by end, key and start."""
        found = self._rows.between(max(first, self._oldest()), last)
        return ((Windowed(self.key.read(key), start, end), self.value.read(data)) for (key, end, start), data in found)

    def all(self) -> Iterator[tuple[Windowed, Stamped]]:
        """Every session of every key."""
        return ((window, Stamped(value, window.end)) for window, value in self.ended_within(0, self.newest))
