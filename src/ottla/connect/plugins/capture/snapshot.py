"""The rows that tables have before the first change: read in one transaction, each a record of op `r`."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from ottla.connect.plugins.capture.beginning import lsn_text
from ottla.connect.plugins.capture.envelope import Events, Offset, Origin
from ottla.connect.plugins.capture.shapes import Shape
from ottla.connect.records import PassedPlace, SourceRecord

log = logging.getLogger("ottla.connect")


@dataclass(frozen=True, slots=True)
class View:
    """The state of the database that a snapshot shows."""

    lsn: int
    """The place in the log at which its changes begin."""
    xid: int
    taken_us: int

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


async def records(
    connection: AsyncConnection[Any], view: View, shapes: Sequence[Shape], options: Mapping[str, Any], events: Events
) -> AsyncIterator[list[SourceRecord]]:
    """The rows of all tables in lists, and the place behind them; ends the transaction.

    The snapshot is complete with its last record, so one is always held back.
    """
    patterns = [re.compile(each, re.IGNORECASE) for each in options["snapshot.include.collection.list"]]
    wanted = [each for each in shapes if not patterns or any(p.fullmatch(each.table.full_name) for p in patterns)]
    log.info("a snapshot of %d tables begins at %s", len(wanted), lsn_text(view.lsn))
    rows: list[SourceRecord] = []
    count = 0
    for shape in wanted:
        async for row, first, last in _marked(_rows(connection, shape, options["statements"])):
            marker = "first" if not count else "first_in_data_collection" if first else "true"
            at = view.origin("last_in_data_collection" if last and count else marker)
            now_us = time.time_ns() // 1000
            after = shape.row(row)
            rows.append(events.change(shape, "r", None, after, at, now_us, view.offset(completed=False)))
            count += 1
            if len(rows) > options["snapshot.fetch.size"]:
                yield rows[:-1]
                del rows[:-1]
    await connection.execute("COMMIT")
    if rows:
        rows[-1].value.get("source").put("snapshot", "last")
        rows[-1].source_offset = view.offset(completed=True)
        yield rows
    else:
        yield [PassedPlace("", source_partition=events.partition, source_offset=view.offset(completed=True))]
    log.info("the snapshot is complete: %d rows", count)


Cells = tuple[str | None, ...]


async def _rows(connection: AsyncConnection[Any], shape: Shape, statements: Mapping[str, str]) -> AsyncIterator[Cells]:
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


async def _marked(rows: AsyncIterator[Cells]) -> AsyncIterator[tuple[Cells, bool, bool]]:
    """Rows with whether each is the first, and the last, of its table."""
    held: Cells | None = None
    first = True
    async for row in rows:
        if held is not None:
            yield held, first, False
            first = False
        held = row
    if held is not None:
        yield held, first, True
