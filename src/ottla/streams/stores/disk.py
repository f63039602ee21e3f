"""Rows on disk, for state that is larger than memory: tables of a SQLite database that ends with its owner.

The database has no name: SQLite deletes its file when it opens it, so nothing is left of a process that was killed, and
changelogs and state files alone make the state durable. Rows that were used last are in memory too, and changed ones
are written together.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ottla.streams.errors import TopologyError
from ottla.streams.naming import nearest
from ottla.streams.serdes import joined, parted
from ottla.streams.stores.kept import FIRST, LAST, EntryKey, Form

MEMORY, DISK = "memory", "disk"
CACHE_KIB = 16 * 1024
"""SQLite's own cache of each database."""
RECENT_ROWS = 10_000
"""The rows of each store that are kept in memory too, and the bytes of their values."""
RECENT_BYTES = 8 * 1024 * 1024
PAGES = (1, 16, 256)
"""A walk reads so many rows first, then, and from then on."""
_MISSING = object()
_PACKED: dict[Form, Callable[[Any], tuple[bytes, int | None]]] = {
    "stamped": lambda entry: entry,
    "bytes": lambda entry: (entry, None),
    "several": lambda entry: (joined(entry), None),
}
_SIZE: dict[Form, Callable[[Any], int]] = {
    "stamped": lambda entry: len(entry[0]),
    "bytes": len,
    "several": lambda entry: sum(map(len, entry)),
}
_READ: dict[Form, Callable[[bytes, Any], Any]] = {
    "stamped": lambda data, stamp: (data, stamp),
    "bytes": lambda data, _: data,
    "several": lambda data, _: parted(data),
}


def check_stores(stores: str) -> None:
    """TopologyError for a value of the option `stores` that is not known."""
    if stores not in (MEMORY, DISK):
        raise TopologyError(f"stores={stores!r} is not known{nearest(stores, (MEMORY, DISK))}")


def database(stores: str) -> StoreDatabase | None:
    """The place of a task's rows, by the option `stores`; None for memory."""
    check_stores(stores)
    return StoreDatabase() if stores == DISK else None


class StoreDatabase:
    """The rows of all stores of a task."""

    def __init__(self, *, recent_rows: int = RECENT_ROWS) -> None:
        self._recent_rows = recent_rows
        # Threads that ask hold the lock of the one that processes.
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self.run("PRAGMA journal_mode = OFF")  # nothing is ever rolled back
        self.run(f"PRAGMA cache_size = -{CACHE_KIB}")
        self.run("BEGIN")
        self._tables = 0

    def rows(self, *, times: int, form: Form, by_time: bool) -> DiskRows:
        """A table of its own."""
        self._tables += 1
        return DiskRows(self, f"rows{self._tables}", times, form, by_time=by_time, recent=self._recent_rows)

    def run(self, sql: str, given: Sequence[Any] = ()) -> list[Any]:
        """The rows that a statement gives."""
        try:
            return self._connection.execute(sql, given).fetchall()
        except sqlite3.Error as fault:
            raise _failed(fault) from fault

    def run_all(self, sql: str, given: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each of these, and count the rows that changed."""
        try:
            return self._connection.executemany(sql, given).rowcount
        except sqlite3.Error as fault:
            raise _failed(fault) from fault

    def close(self) -> None:
        """Give the disk's room back."""
        self._connection.close()

    def __del__(self) -> None:
        self.close()


def _failed(fault: Exception) -> TopologyError:
    return TopologyError(
        f"the stores on disk failed: {fault}; SQLite keeps them in the directory that SQLITE_TMPDIR or TMPDIR names, "
        "else in /var/tmp: make room there, or name another one. No state is lost"
    )


class DiskRows:
    """Rows of one store. `_recent` has those used last, as they are now; None stands for a row that is not there."""

    def __init__(
        self, database: StoreDatabase, table: str, times: int, form: Form, *, by_time: bool, recent: int
    ) -> None:
        self._database, self._table, self._most = database, table, recent
        self._pack, self._unpack, self._size = _PACKED[form], _READ[form], _SIZE[form]
        self._columns = ("data", "at", "also")[: 1 + times]
        self._recent: dict[EntryKey, Any] = {}
        self._recent_bytes = 0
        self._changed: dict[bytes, set[EntryKey]] = {}
        self._count = 0
        self._oldest = LAST
        """No row is older; `_oldest_changed`: none of those that are not written yet."""
        self._oldest_changed = LAST
        columns = ", ".join(self._columns)
        database.run(f"CREATE TABLE {table} ({columns}, value, stamp, PRIMARY KEY ({columns})) WITHOUT ROWID")
        if by_time:
            database.run(f"CREATE INDEX {table}_by_time ON {table} (at, data{', also' if times > 1 else ''})")
        here = " AND ".join(f"{column} = ?" for column in self._columns)
        self._select = f"SELECT value, stamp FROM {table} WHERE {here}"
        self._delete = f"DELETE FROM {table} WHERE {here}"
        self._insert = f"INSERT INTO {table} VALUES ({', '.join('?' * (len(self._columns) + 2))})"

    def get(self, key: EntryKey) -> Any:
        entry = self._recent.get(key, _MISSING)
        if entry is _MISSING:
            found = self._database.run(self._select, key)
            entry = self._unpack(*found[0]) if found else None
            self._remember(key, entry)
        return entry

    def set(self, key: EntryKey, entry: Any) -> None:
        self._changed.setdefault(key[0], set()).add(key)
        if entry is not None and len(key) > 1 and key[1] < self._oldest_changed:
            self._oldest_changed = key[1]
            self._oldest = min(self._oldest, key[1])
        self._remember(key, entry)

    def of(self, data: bytes, first: int = FIRST, last: int = LAST) -> list[tuple[EntryKey, Any]]:
        given = data, max(first, FIRST), min(last, LAST)
        where = "data = ? AND at BETWEEN ? AND ?"
        found = {self._key(row): self._entry(row) for row in self._database.run(self._from(where), given)}
        changed = self._changed.get(data)
        if changed:
            found.update((key, self._recent[key]) for key in changed if first <= key[1] <= last)
        return [(key, entry) for key, entry in sorted(found.items()) if entry is not None]

    def walk(self, low: bytes | None = None, high: bytes | None = None) -> Iterator[tuple[EntryKey, Any]]:
        limits = [("data >= ?", low)] if low is not None else []
        return self._walk(self._columns, limits, [("data <= ?", high)] if high is not None else [])

    def between(self, first: int = FIRST, last: int = LAST) -> Iterator[tuple[EntryKey, Any]]:
        order = ("at", "data", "also")[: len(self._columns)]
        return self._walk(order, [("at >= ?", max(first, FIRST))], [("at <= ?", min(last, LAST))])

    def before(self, time: int) -> list[EntryKey]:
        if time <= self._oldest:
            return []
        if time > self._oldest_changed:
            self._write()
        self._oldest = time
        order = ", ".join(("at", "data", "also")[: len(self._columns)])
        columns = ", ".join(self._columns)
        found = self._database.run(f"SELECT {columns} FROM {self._table} WHERE at < ? ORDER BY {order}", (time,))
        return [key for key in found if self._recent.get(key, _MISSING) is not None]

    def entries(self) -> Iterator[tuple[EntryKey, Any]]:
        return self.walk()

    def __len__(self) -> int:
        self._write()
        return self._count

    def _walk(
        self, order: Sequence[str], begin: list[tuple[str, Any]], end: list[tuple[str, Any]]
    ) -> Iterator[tuple[EntryKey, Any]]:
        """Rows page by page, so that they may change meanwhile; each page begins behind the one before."""
        behind = f"({', '.join(order)}) > ({', '.join('?' * len(order))})"
        given = [value for _, value in begin]
        where = [limit for limit, _ in begin]
        for page in self._pages():
            self._write()
            limits = " AND ".join([*where, *(limit for limit, _ in end)]) or "1"
            sql = f"{self._from(limits)} ORDER BY {', '.join(order)} LIMIT ?"
            rows = self._database.run(sql, [*given, *(value for _, value in end), page])
            for row in rows:
                yield self._key(row), self._entry(row)
            if len(rows) < page:
                return
            given = [rows[-1][self._columns.index(column)] for column in order]
            where = [behind]

    @staticmethod
    def _pages() -> Iterator[int]:
        yield from PAGES
        while True:
            yield PAGES[-1]

    def _from(self, where: str) -> str:
        return f"SELECT * FROM {self._table} WHERE {where}"

    def _key(self, row: Sequence[Any]) -> EntryKey:
        return tuple(row[: len(self._columns)])

    def _entry(self, row: Sequence[Any]) -> Any:
        return self._unpack(row[-2], row[-1])

    def _remember(self, key: EntryKey, entry: Any) -> None:
        self._recent[key] = entry
        if entry is not None:
            self._recent_bytes += self._size(entry)
        if len(self._recent) > self._most or self._recent_bytes > RECENT_BYTES:
            self._write()
            self._recent.clear()
            self._recent_bytes = 0

    def _write(self) -> None:
        """Write the changed rows, in the order of the table."""
        if not self._changed:
            return
        keys = sorted(key for changed in self._changed.values() for key in changed)
        self._changed.clear()
        self._oldest_changed = LAST
        rows = [(*key, *self._pack(entry)) for key in keys if (entry := self._recent[key]) is not None]
        self._count -= self._database.run_all(self._delete, keys)
        self._database.run_all(self._insert, rows)
        self._count += len(rows)
