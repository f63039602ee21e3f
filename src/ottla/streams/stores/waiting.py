"""The store of rows that wait for their time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.streams.stores.kept import Changes, EntryKey, QueuedRows, RowMaker
from ottla.streams.stores.memory import MemoryQueue


class OrderedStore:
    """Bytes by a time and a key, taken from the oldest on: rows that wait. `holds` says in words what they are."""

    def __init__(self, name: str, holds: str) -> None:
        self.name, self.holds = name, holds
        self.changes = Changes()
        self._rows: QueuedRows = MemoryQueue()

    def keep_in(self, maker: RowMaker) -> None:
        """Keep the rows elsewhere than in memory; there are none yet."""
        self._rows = maker.rows(times=1, form="bytes", by_time=True)

    def put(self, time: int, key: bytes, entry: bytes) -> None:
        """Keep an entry; a key that waits already keeps its place in time."""
        there = self._rows.of(key)
        self.restore((there[0][0][1] if there else time, key), entry)

    def get(self, key: bytes) -> bytes | None:
        """The entry that waits under a key, or None."""
        there = self._rows.of(key)
        return there[0][1] if there else None

    def remove(self, key: bytes) -> None:
        """Forget an entry, if it is there."""
        for (_, time), _ in self._rows.of(key):
            self.restore((time, key), None)

    def oldest(self) -> tuple[int, bytes, bytes] | None:
        """The time, the key and the entry that came first."""
        return next(self.in_order(), None)

    def in_order(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Every entry, by time and then by key; the one that was given last may be removed meanwhile."""
        return ((time, data, entry) for (data, time), entry in self._rows.between())

    def restore(self, key: EntryKey, entry: Any) -> None:
        """Set one entry as `changes` reported it."""
        self.changes.entries[key] = entry
        time, data = key
        self._rows.set((data, time), entry)

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        """Every entry, as `restore` takes it."""
        return (((time, data), entry) for (data, time), entry in self._rows.entries())

    def __len__(self) -> int:
        return len(self._rows)
