"""The snapshot of PostgreSQL: one transaction, in which the rows of tables are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from ottla.connect.plugins.capture.beginning import lsn_text
from ottla.connect.plugins.capture.envelope import Offset, Origin
from ottla.connect.plugins.capture.rows import Row
from ottla.connect.plugins.capture.shapes import Shape


@dataclass(frozen=True, slots=True)
class View:
    """The state of the database that a snapshot shows."""

    lsn: int
    """The place in the log at which its changes begin."""
    xid: int
    taken_us: int

    def __str__(self) -> str:
        return lsn_text(self.lsn)

    def offset(self, *, completed: bool) -> Offset:
        """The offset of a record of the snapshot."""
        return {"ts_usec": self.taken_us, "txId": self.xid, "lsn": self.lsn, "snapshot": "INITIAL",
                "snapshot_completed": completed}  # fmt: skip

    def origin(self, marker: str) -> Origin:
        """The place of a record of the snapshot."""
        return Origin(self.taken_us, marker, f'[null,"{self.lsn}"]', self.xid, self.lsn)


async def take(connection: AsyncConnection[Any], exported: str | None, lsn: int) -> View:
    """Begin the transaction of a snapshot: that of a new slot, or one of its own."""
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    if exported is not None:
        await connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(exported)))
    cursor = await connection.execute(
        "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8, (extract(epoch FROM now()) * 1000000)::int8"
        if connection.info.server_version >= 130_000
        else "SELECT txid_snapshot_xmin(txid_current_snapshot()), (extract(epoch FROM now()) * 1000000)::int8"
    )
    row = await cursor.fetchone()
    assert row is not None
    return View(lsn, *row)


async def rows(connection: AsyncConnection[Any], shape: Shape, statements: Mapping[str, str]) -> AsyncIterator[Row]:
    """The rows of a table in the server's text."""
    table = shape.table
    columns = sql.SQL(", ").join(sql.Identifier(each.name) for each in table.columns)
    statement = statements.get(table.full_name)
    what: sql.Composable = sql.Identifier(table.schema, table.name)
    if statement is not None:
        what = sql.SQL("({}) AS overridden").format(sql.SQL(statement))
    question = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(columns, what)
    async with connection.cursor() as cursor, cursor.copy(question) as copy:
        async for row in copy.rows():
            yield row
