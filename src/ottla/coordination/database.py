"""The SQLite file itself: tables, transactions, and a reserve against a full disk. Synchronous; one thread owns it.

`sqlite.py` calls it from its worker thread. Nothing is created before the first append, so that a broker on an empty
directory pays for one transaction.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.kernel.seams import Conflict, LogEntry, StoreDamaged, StoredSnapshot, Unknown, Written

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
JOURNAL = "PERSIST"
"""SQLite's journal mode. A rollback journal, as damage to a write-ahead log loses entries in silence; one that stays
allocated between transactions, as a part of the reserve (docs/decisions/0010-sqlite-journal.md)."""
BUSY_TIMEOUT_MS = 5000
READ_BYTES = 8 * 1024 * 1024
"""The bytes that one read hands out at most, about."""
RESERVE_BYTES = 512 * 1024
_SETTLE_MS = 1000
_LOG, _SNAPSHOT = "log", "snapshot"
_TABLES = (
    "CREATE TABLE log (version INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE snapshot (version INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE reserve (filler BLOB NOT NULL)",
    "PRAGMA user_version = 1",
)
_SCHEMA_VERSION = 1


class DatabaseFailure(Exception):
    """SQLite failed, and nothing was written."""


class Database:
    """An open file. Every method is one transaction; all rows are fetched before it returns."""

    def __init__(self, path: str, journal: str = JOURNAL) -> None:
        self._path = path
        self._journal = journal
        self._connection: sqlite3.Connection | None = None
        self._has_tables = False
        self._seen_version = 0
        self._reserved = False
        self._opened_ms = 0
        self._checked = False
        self._identity: tuple[int, int] | None = None
        """The file's device and inode as it was opened."""

    def head(self) -> int:
        return self._guarded(self._head)

    def append(self, bodies: Sequence[bytes], expected_version: int) -> Written | Conflict | Unknown:
        """Append all or none. `Unknown` only if a commit failed in a way that leaves its outcome to the next open."""
        return self._writing(lambda connection: self._append(connection, bodies, expected_version))

    def read(self, after_version: int, limit: int) -> list[LogEntry]:
        """Read entries; StoreDamaged if the file's pages are not as SQLite wrote them."""
        return self._reading(lambda connection: self._read(connection, after_version, limit))

    def load_snapshot(self) -> StoredSnapshot | None:
        return self._reading(self._load_snapshot)

    def save_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Keep this snapshot and the one before; cut the log below that one."""
        if isinstance(outcome := self._writing(lambda connection: self._save(connection, snapshot)), Unknown):
            raise DatabaseFailure(outcome.why)

    def changed_by_others(self) -> bool:
        """True if another connection wrote since the last call."""

        def run(connection: sqlite3.Connection) -> bool:
            version: int = connection.execute("PRAGMA data_version").fetchone()[0]
            changed, self._seen_version = version != self._seen_version, version
            return changed

        return self._guarded(run)

    def tend(self) -> None:
        """Make the reserve once the start is over: pages to write to on a full disk, and a journal long enough.

        Changing the filler journals every page of it; in PERSIST mode the journal keeps that room.
        """
        if self._reserved or not self._has_tables or _now_ms() - self._opened_ms < _SETTLE_MS:
            return
        try:
            for statement in ("INSERT INTO reserve VALUES (zeroblob(?))", "UPDATE reserve SET filler = randomblob(?)"):
                self._writing(partial(self._reserve, statement))
        except DatabaseFailure:
            self._opened_ms = _now_ms()  # no room now: try again in a while
        else:
            self._reserved = True

    @staticmethod
    def _reserve(statement: str, connection: sqlite3.Connection) -> Written:
        rows: int = connection.execute("SELECT count(*) FROM reserve").fetchone()[0]
        if (rows == 0) == statement.startswith("INSERT"):
            connection.execute(statement, (RESERVE_BYTES,))
        return Written(0)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # Transactions

    def _append(
        self, connection: sqlite3.Connection, bodies: Sequence[bytes], expected_version: int
    ) -> Written | Conflict:
        head = self._head(connection)
        if head != expected_version:
            return Conflict(head)
        if not self._has_tables:
            for statement in _TABLES:
                connection.execute(statement)
        rows = [(head + 1 + index, body) for index, body in enumerate(bodies)]
        connection.executemany("INSERT INTO log VALUES (?, ?)", rows)
        return Written(head + len(rows))

    def _head(self, connection: sqlite3.Connection) -> int:
        if not self._look_for_tables(connection):
            return 0
        row = connection.execute(
            "SELECT max(coalesce((SELECT max(version) FROM log), 0), coalesce((SELECT max(version) FROM snapshot), 0))"
        ).fetchone()
        return int(row[0])

    def _read(self, connection: sqlite3.Connection, after_version: int, limit: int) -> list[LogEntry]:
        if not self._look_for_tables(connection):
            return []
        head = self._head(connection)  # not after the entries: another process may append in between
        cursor = connection.execute(
            "SELECT version, body FROM log WHERE version > ? ORDER BY version LIMIT ?", (after_version, limit)
        )
        found: list[LogEntry] = []
        size = 0
        for version, body in cursor:
            found.append(LogEntry(version, self._bytes(f"entry {version}", body)))
            size += len(body)
            if size >= READ_BYTES:
                break
        cursor.close()
        first = found[0].version if found else head + 1
        if first > after_version + 1:
            raise LookupError(f"the metadata log has been cut below {first}")
        return found

    def _load_snapshot(self, connection: sqlite3.Connection) -> StoredSnapshot | None:
        if not self._look_for_tables(connection):
            return None
        row = connection.execute("SELECT version, body FROM snapshot ORDER BY version DESC LIMIT 1").fetchone()
        return None if row is None else StoredSnapshot(row[0], self._bytes(f"the snapshot of version {row[0]}", row[1]))

    def _bytes(self, what: str, body: object) -> bytes:
        if isinstance(body, bytes):
            return body
        raise StoreDamaged(self._path, what, f"its row holds {type(body).__name__}, not bytes")

    def _save(self, connection: sqlite3.Connection, snapshot: StoredSnapshot) -> Written | Conflict:
        previous = self._load_snapshot(connection)
        if previous is not None and previous.version >= snapshot.version:
            return Conflict(previous.version)
        connection.execute("INSERT INTO snapshot VALUES (?, ?)", snapshot)
        if previous is not None:
            connection.execute("DELETE FROM snapshot WHERE version < ?", (previous.version,))
            connection.execute("DELETE FROM log WHERE version <= ?", (previous.version,))
        return Written(snapshot.version)

    def _look_for_tables(self, connection: sqlite3.Connection) -> bool:
        if not self._has_tables:
            found, tables = _layout(connection)
            if found > _SCHEMA_VERSION:
                raise DatabaseFailure(f"{self._path} was written by a newer release (layout {found})")
            if tables != (set(_TABLES[:-1]) if found else set()):
                raise StoreDamaged(self._path, "the list of tables", f"layout {found} has others than {tables}")
            self._has_tables = found == _SCHEMA_VERSION
        return self._has_tables

    # Guards

    def _reading(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """Tell damage, after which nothing can be read, from other failures, which may pass."""
        try:
            return self._guarded(run)
        except DatabaseFailure as failure:
            if not _is_damage(failure):
                raise
            raise StoreDamaged(self._path, "its file", str(failure.__cause__)) from failure

    def _guarded(self, run: Callable[[sqlite3.Connection], T]) -> T:
        import sqlite3

        try:
            self._still_there()
            return run(self._open())
        except sqlite3.Error as error:
            raise DatabaseFailure(f"{self._path}: {error}{_unusable(self._path)}") from error

    def _still_there(self) -> None:
        """DatabaseFailure if the name leads to another file by now, or to none: no other broker would see an append.

        SQLite holds on to the file that it opened. The content of a deleted file is there until the last broker that
        has it open ends.
        """
        found = _identity(self._path)
        if self._identity not in (None, found):
            what = "removed" if found is None else "replaced by another file"
            raise DatabaseFailure(
                f"{self._path} was {what} while this broker uses it: nothing is read or written any more. "
                f"{_way_to_deleted(self._path)}Put the store back with all of its brokers stopped"
            )

    def _writing(self, run: Callable[[sqlite3.Connection], Written | Conflict]) -> Written | Conflict | Unknown:
        """One write transaction; on a full disk it is repeated once, with the reserve freed."""
        try:
            return self._transaction(run)
        except DatabaseFailure as failure:
            if not _is_full(failure) or not self._free_reserve():
                raise
            return self._transaction(run)

    def _transaction(self, run: Callable[[sqlite3.Connection], Written | Conflict]) -> Written | Conflict | Unknown:
        import sqlite3

        connection = self._guarded(lambda connection: connection)
        try:
            connection.execute("BEGIN IMMEDIATE")
            outcome = run(connection)
            if isinstance(outcome, Conflict):
                connection.execute("ROLLBACK")
                return outcome
        except StoreDamaged:
            self._roll_back(connection)
            raise
        except sqlite3.Error as error:
            self._roll_back(connection)
            raise DatabaseFailure(f"{self._path}: {error}") from error
        return self._commit(connection, outcome)

    def _commit(self, connection: sqlite3.Connection, outcome: Written) -> Written | Unknown:
        """Busy and full leave the transaction as it was; any other failure leaves its outcome unknown."""
        import sqlite3

        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY):
                self._roll_back(connection)
                raise DatabaseFailure(f"{self._path}: {error}") from error
            self.close()  # the journal settles, at the next open, the state that a failed fsync left
            return Unknown(f"{self._path}: {error}")
        self._has_tables = True
        if _identity(self._path) != self._identity:  # the file was removed just before: no other broker sees the append
            return Unknown(f"{self._path} is not the file any more that was written to")
        return outcome

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        import sqlite3

        self._has_tables = False
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _free_reserve(self) -> bool:
        """Turn the reserve into free pages of the file; return whether there was one."""
        self._reserved = False
        self._opened_ms = _now_ms()

        def run(connection: sqlite3.Connection) -> Written:
            connection.execute("DELETE FROM reserve")
            return Written(0)

        try:
            return not isinstance(self._transaction(run), Unknown)
        except DatabaseFailure:
            return False

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            import sqlite3

            directory, is_new = os.path.dirname(self._path), not os.path.exists(self._path)
            if is_new:  # the file holds the secret by which brokers prove themselves
                os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(
                self._path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False
            )
            try:
                _choose_journal(connection, self._journal)
                connection.execute("PRAGMA synchronous = FULL")
                self._check_pages(connection)
                self._seen_version = connection.execute("PRAGMA data_version").fetchone()[0]
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._identity = _identity(self._path)
            self._opened_ms = _now_ms()
            if is_new:  # SQLite syncs its own names; that of the directory is ours to keep
                sync_directory(os.path.dirname(directory))
        return self._connection

    def _check_pages(self, connection: sqlite3.Connection) -> None:
        """Once in a broker's life: a page that lost its rows would look like a log that is shorter."""
        if not self._checked:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise StoreDamaged(self._path, "its file", found)
            self._checked = True


def _choose_journal(connection: sqlite3.Connection, journal: str) -> None:
    """Set the journal's mode; wait for a broker that writes meanwhile.

    SQLite fails this statement at once where another connection writes, whatever the timeout of the connection is.
    BEGIN IMMEDIATE waits for that other connection.
    """
    import sqlite3

    deadline_ms = _now_ms() + BUSY_TIMEOUT_MS
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {journal}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or _now_ms() >= deadline_ms:
                raise
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def _layout(connection: sqlite3.Connection) -> tuple[int, set[str]]:
    """The layout's number and the statements that made the tables, both of one moment."""
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")
    try:
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return found, {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master").fetchall()}
    finally:
        if alone and connection.in_transaction:  # a failure may have ended it
            connection.execute("ROLLBACK")


def _identity(path: str) -> tuple[int, int] | None:
    """Device and inode of a file; by stat, as an open file that is closed again drops SQLite's locks."""
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _way_to_deleted(path: str) -> str:
    """A sentence about the place from which a removed file that is still open can be copied; "" if none is found."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}") == f"{os.path.realpath(path)} (deleted)":
                    return f"As long as this process runs, /proc/{os.getpid()}/fd/{name} still holds it. "
    return ""


def _unusable(path: str) -> str:
    """SQLite's files that cannot be opened, and a remedy; by stat, for the same reason. "" if all can."""
    for each in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        if os.path.isdir(each):
            what = "put the store back from a backup" if each == path else "start again"
            return f". {each} is a directory: stop the brokers of this store, move it away, and {what}"
        if os.path.exists(each) and not os.access(each, os.R_OK | os.W_OK, effective_ids=True):
            return f". This user may not read and write {each}: give it the right to, and start again"
    return ""


def _is_full(failure: DatabaseFailure) -> bool:
    import sqlite3

    return _code(failure) == sqlite3.SQLITE_FULL


def _is_damage(failure: DatabaseFailure) -> bool:
    import sqlite3

    return _code(failure) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _code(failure: DatabaseFailure) -> int:
    return getattr(failure.__cause__, "sqlite_errorcode", 0) & 0xFF


def sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
