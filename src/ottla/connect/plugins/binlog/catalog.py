"""Questions to the server: what its log is like, which tables there are, and where the log stands. All of it blocks."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.plugins.binlog.envelope import View
from ottla.connect.plugins.binlog.session import abandon, quoted, rows
from ottla.connect.plugins.binlog.types import MyType, declared
from ottla.connect.plugins.capture.tables import Column, Selection, Table

if TYPE_CHECKING:
    from pymysql import Connection

_WANTED: Final = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
_TABLES: Final = """
    SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY table_schema, table_name"""
_COLUMNS: Final = """
    SELECT column_name, column_type, is_nullable, column_default FROM information_schema.columns
    WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"""


class Catalog:
    """One connection's view of the server."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection = connection

    def require_log(self) -> None:
        """Refuse a server whose log does not have all that is needed, and say how to set it."""
        ((version, on),) = rows(self.connection, "SELECT VERSION(), @@log_bin")
        if "mariadb" not in version.lower():
            raise ConfigException(f"the server is MySQL {version}: this connector reads MariaDB's log, 10.5 or newer")
        if on != "1":
            raise ConfigException("the server writes no binary log: start it with --log-bin and a server_id")
        found = dict(rows(self.connection, "SHOW GLOBAL VARIABLES LIKE 'binlog_%'"))
        for name, wanted in _WANTED.items():
            if name not in found:
                raise ConfigException(f"the server {version} has no {name}: MariaDB 10.5 or newer is needed")
            if found[name] != wanted:
                raise ConfigException(f"the server has {name}={found[name]}: SET GLOBAL {name}={wanted}, and put it "
                                      "into the server's configuration")  # fmt: skip

    def checksums(self) -> bool:
        """True where events end with a checksum."""
        ((kind,),) = rows(self.connection, "SELECT @@global.binlog_checksum")
        return bool(kind == "CRC32")

    def charsets(self) -> dict[int, str]:
        """The character set of each collation, by its number."""
        found = rows(self.connection, "SELECT id, character_set_name FROM information_schema.collations")
        more = rows(self.connection, "SHOW TABLES FROM information_schema LIKE 'COLLATION_CHARACTER_SET_APPLICABILITY'")
        if more:  # newer servers have collations of several character sets there
            names = {row[0].lower() for row in rows(
                self.connection, "SHOW COLUMNS FROM information_schema.collation_character_set_applicability"
            )}  # fmt: skip
            if "id" in names:
                found += rows(self.connection, "SELECT id, character_set_name FROM "
                              "information_schema.collation_character_set_applicability")  # fmt: skip
        return {int(number): charset for number, charset in found if number is not None and charset is not None}

    def tables(self, selection: Selection) -> list[Table]:
        """The captured tables, in the order of the snapshot."""
        wanted = [each for each in rows(self.connection, _TABLES) if selection.table(*each)]
        wanted.sort(key=lambda each: selection.order(*each))
        return [self.table(*each) for each in wanted]

    def table(self, schema: str, name: str) -> Table:
        """One table; without columns where it is gone."""
        columns = tuple(
            Column(column, declared(kind), optional=optional == "YES", default=default)
            for column, kind, optional, default in rows(self.connection, _COLUMNS, (schema, name))
        )
        return Table(schema, name, columns, self._key(schema, name) if columns else ())

    def _key(self, schema: str, name: str) -> tuple[str, ...]:
        """The primary key, or in its place the first unique index without nulls, as in the log."""
        found: dict[str, list[tuple[str, str]]] = {}
        for row in rows(self.connection, f"SHOW KEYS FROM {quoted(schema)}.{quoted(name)} WHERE Non_unique = 0"):
            found.setdefault(row[2], []).append((row[4], row[9]))
        whole = (parts for parts in found.values() if all(optional != "YES" for _, optional in parts))
        return tuple(column for column, _ in next(whole, []))

    def view(self) -> View:
        """Begin a transaction that sees the rows as they are at one place of the log, without a lock."""
        with self.connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        found = dict(rows(self.connection, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
        places = {name.lower(): value for name, value in found.items()}
        if not places.get("binlog_snapshot_file"):
            raise ConnectException("the server does not tell the place of a snapshot in its log: is log_bin on?")
        return self.at(places["binlog_snapshot_file"], int(places["binlog_snapshot_position"]))

    def log_end(self) -> View:
        """The end of the server's log."""
        found = rows(self.connection, "SHOW MASTER STATUS")
        if not found:
            raise ConfigException("the server writes no binary log: start it with --log-bin and a server_id")
        return self.at(found[0][0], int(found[0][1]))

    def at(self, file: str, position: int) -> View:
        """A place in the log, with the last transaction of each domain before it."""
        ((gtids,),) = rows(self.connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, str(position)))
        return View(file, position, gtids or "", int(time.time()))

    def end_view(self) -> None:
        """End the transaction of a snapshot."""
        self.connection.commit()

    def read(
        self, table: Table, statements: Mapping[str, str], size: int
    ) -> Generator[list[tuple[Any, ...]], None, None]:
        """The rows of a table in runs, each value in the form of the log. FLOAT has all its digits as DOUBLE alone."""
        from pymysql.cursors import SSCursor

        columns = ", ".join(
            f"CAST({quoted(each.name)} AS DOUBLE)"
            if isinstance(each.kind, MyType) and each.kind.name == "float" else quoted(each.name)
            for each in table.columns
        )  # fmt: skip
        statement = statements.get(table.full_name)
        what = f"({statement}) AS overridden" if statement else f"{quoted(table.schema)}.{quoted(table.name)}"
        cursor = self.connection.cursor(SSCursor)
        cursor.execute(f"SELECT {columns} FROM {what}")
        try:
            while found := cursor.fetchmany(size):
                yield list(found)
        finally:
            abandon(cursor)
