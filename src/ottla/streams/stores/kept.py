"""The parts that all stores have: their rows, and a list of the entries that changed.

Values are kept as bytes, so that nothing that a user's function does to a value later changes the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

EntryKey = tuple[Any, ...]
Entry = tuple[bytes, int]
"""A value's bytes and its timestamp."""
FIRST, LAST = -(2**63), 2**63 - 1
"""The bounds of times."""


class Rows(Protocol):
    """Entries by their keys: the bytes of a key, and a time or two where the store has them.

    An entry of None deletes. Walks are in order; the entry that a walk gave last may be set meanwhile.
    """

    def get(self, key: EntryKey) -> Any: ...
    def set(self, key: EntryKey, entry: Any) -> None: ...
    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        """Every entry, in any order."""
        ...

    def __len__(self) -> int: ...


class SortedRows(Rows, Protocol):
    """Rows that are also found by ranges of bytes."""

    def walk(self, low: bytes | None = None, high: bytes | None = None) -> Iterator[tuple[EntryKey, Any]]:
        """Entries whose bytes lie between two, both included, by bytes and times."""
        ...


class QueuedRows(Rows, Protocol):
    """Rows that are also found by their bytes alone, and by ranges of their first time."""

    def of(self, data: bytes, first: int = FIRST, last: int = LAST) -> list[tuple[EntryKey, Any]]:
        """Entries of one key whose time lies between two, both included, by times."""
        ...

    def between(self, first: int = FIRST, last: int = LAST) -> Iterator[tuple[EntryKey, Any]]:
        """Entries of all keys between two times, both included, by time and bytes."""
        ...


class TimedRows(SortedRows, QueuedRows, Protocol):
    """Rows that are found in all these ways, and expire."""

    def before(self, time: int) -> list[EntryKey]:
        """The keys of the entries before a time, by time and bytes; the caller deletes them."""
        ...


Form = Literal["stamped", "bytes", "several"]
"""Entries are values with a timestamp, bytes, or tuples of several values."""


class RowMaker(Protocol):
    """Makes rows elsewhere than in memory."""

    def rows(self, *, times: int, form: Form, by_time: bool) -> TimedRows:
        """Rows with so many times in their keys; `by_time` if they are also found by the first."""
        ...


@dataclass(slots=True)
class Changes:
    """Entries of one store that changed since they were last taken; None stands for a deleted one."""

    entries: dict[EntryKey, Any] = field(default_factory=dict)

    def take(self) -> dict[EntryKey, Any]:
        """The changed entries; the list is empty after that."""
        taken, self.entries = self.entries, {}
        return taken
