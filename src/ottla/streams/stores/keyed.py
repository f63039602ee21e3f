"""Stores of one value a key, and of its older values by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise, takewhile
from typing import Any

from ottla.streams.serdes import Serde
from ottla.streams.stores.kept import Changes, EntryKey, RowMaker, SortedRows, TimedRows
from ottla.streams.stores.memory import MemoryKeys, MemoryTimes
from ottla.streams.values import Stamped


class KeyValueStore:
    """The newest value of each key, with its timestamp."""

    def __init__(self, name: str, key: Serde, value: Serde) -> None:
        self.name = name
        self.key, self.value = key, value
        self.changes = Changes()
        self._rows: SortedRows = MemoryKeys()

    def keep_in(self, maker: RowMaker) -> None:
        """Keep the rows elsewhere than in memory; there are none yet."""
        self._rows = maker.rows(times=0, form="stamped", by_time=False)

    def get(self, key: Any) -> Stamped | None:
        """The value of a key with its timestamp, or None."""
        entry = self._rows.get((self.key.write(key),))
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
        return self._read(self._rows.walk(self.key.to_bytes(first), self.key.to_bytes(last)))

    def prefix(self, start: bytes) -> Iterator[tuple[Any, Stamped]]:
        """The keys whose bytes begin with `start`."""
        return self._read(beginning_with(start, self._rows))

    def restore(self, key: EntryKey, entry: Any) -> None:
        """Set one entry as `changes` reported it."""
        self.changes.entries[key] = entry
        self._rows.set(key, entry)

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        """Every entry, as `restore` takes it."""
        return self._rows.entries()

    def _read(self, found: Iterable[tuple[EntryKey, Any]]) -> Iterator[tuple[Any, Stamped]]:
        return ((self.key.read(key[0]), Stamped(self.value.read(data), timestamp)) for key, (data, timestamp) in found)

    def __len__(self) -> int:
        return len(self._rows)


DELETED, PRESENT = b"\0", b"\1"
"""The first byte of an entry: a version may say that the key was deleted then."""


class VersionedStore:
    """Values by key and the time from which they are valid (KIP-889).

    One is kept until a newer one of its key is older than `retention_ms` in stream time.
    """

    def __init__(self, name: str, key: Serde, value: Serde, retention_ms: int) -> None:
        self.name = name
        self.key, self.value, self.retention_ms = key, value, retention_ms
        self.changes = Changes()
        self.expired = 0
        self.newest = -1
        self._rows: TimedRows = MemoryTimes(by_time=False)

    def keep_in(self, maker: RowMaker) -> None:
        """Keep the rows elsewhere than in memory; there are none yet."""
        self._rows = maker.rows(times=1, form="bytes", by_time=False)

    def get(self, key: Any, at: int | None = None) -> Stamped | None:
        """The newest value of a key, or the one that was valid at a time; None before the retention."""
        versions = self._rows.of(self.key.write(key))
        if not versions:
            return None
        (_, latest), entry = versions[-1]
        if at is None or latest <= at:
            return self._stamped(entry, latest)
        if at < self.newest - self.retention_ms:
            return None
        before = [(time, entry) for (_, time), entry in versions if time <= at]
        return self._stamped(before[-1][1], before[-1][0]) if before else None

    def put(self, key: Any, value: Any, timestamp: int) -> bool | None:
        """Keep a version; true if it is the newest of its key, None if it is past the retention and was dropped."""
        if timestamp < self.newest - self.retention_ms:
            self.expired += 1
            return None
        self.newest = max(self.newest, timestamp)
        data, written = self.key.write(key), self.value.to_bytes(value)
        self.restore((data, timestamp), DELETED if written is None else PRESENT + written)
        versions = [key for key, _ in self._rows.of(data)]
        self._expire(versions)
        return versions[-1] == (data, timestamp)

    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Stamped]]:
        """The newest values of the keys from `first` to `last`, both included, in the order of their bytes."""
        return self._newest(self._rows.walk(self.key.to_bytes(first), self.key.to_bytes(last)))

    def prefix(self, start: bytes) -> Iterator[tuple[Any, Stamped]]:
        """The newest values of the keys whose bytes begin with `start`."""
        return self._newest(beginning_with(start, self._rows))

    def all(self) -> Iterator[tuple[Any, Stamped]]:
        """Every key that is not deleted with its newest value."""
        return self.range(None, None)

    def restore(self, key: EntryKey, entry: Any) -> None:
        """Set one entry as `changes` reported it."""
        self.changes.entries[key] = entry
        self.newest = max(self.newest, key[1])
        self._rows.set(key, entry)

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        """Every entry, as `restore` takes it."""
        return self._rows.entries()

    def _expire(self, versions: list[EntryKey]) -> None:
        """Drop the versions of a key that were over before the retention; one that is still valid stays."""
        oldest = self.newest - self.retention_ms
        for key, following in pairwise(versions):
            if following[1] <= oldest:
                self.restore(key, None)

    def _newest(self, found: Iterable[tuple[EntryKey, Any]]) -> Iterator[tuple[Any, Stamped]]:
        for data, versions in groupby(found, lambda one: one[0][0]):
            (_, time), entry = list(versions)[-1]
            if (stamped := self._stamped(entry, time)) is not None:
                yield self.key.read(data), stamped

    def _stamped(self, entry: bytes, time: int) -> Stamped | None:
        return None if entry == DELETED else Stamped(self.value.read(entry[1:]), time)

    def __len__(self) -> int:
        return len(self._rows)


def beginning_with(start: bytes, rows: SortedRows) -> Iterator[tuple[EntryKey, Any]]:
    """The entries whose bytes begin with `start`."""
    return takewhile(lambda one: one[0][0].startswith(start), rows.walk(start))
