"""The task of the JDBC source: it polls its tables in turn, and may have them read by Spark's workers before that."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.connect.plugins.base import Config, OffsetReader, ReadPieces, SourceOffset, SourceTask
from ottla.connect.plugins.jdbc.database import asked, engine_of
from ottla.connect.records import PassedPlace, SourceRecord

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ottla.connect.plugins.jdbc.anchor import Anchor
    from ottla.connect.plugins.jdbc.pieces import TablePiece
    from ottla.connect.plugins.jdbc.polling import Poller

T = TypeVar("T")
Table = tuple[str | None, str]
"""The schema of a table, None where the database has none, and its name."""
TABLES: Final = "tables"
"""The option of a task that names its tables, as a list in JSON of schema or null, and table."""
PIECE: Final = "piece"
"""The option of a task that reads once and ends: its part of a table, empty for all."""
log = logging.getLogger("ottla.connect")


def name_of(schema: str | None, table: str) -> str:
    """A table's name in offsets."""
    return f"{schema}.{table}" if schema else table


def piece_config(config: Config, piece: TablePiece) -> dict[str, str]:
    """The configuration of a task that reads a piece."""
    return {**config, TABLES: json.dumps([[piece.schema, piece.table]]), PIECE: piece.as_text()}


class JdbcSourceTask(SourceTask):
    """Polls its tables in turn, each once in a poll interval. The database is asked in a thread of the task's own."""

    def __init__(self, options: dict[str, Any], tables: Sequence[Table], piece: str | None = None) -> None:
        """`piece` is the part of its one table that the task reads before it ends, empty for all."""
        self._options, self._tables, self._piece = options, tables, piece
        self._ended = False
        self._interval = options["poll.interval.ms"] / 1000
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jdbc")
        self._engine: Engine | None = None
        self._pollers: list[Poller] = []

    async def start(self, offsets: OffsetReader) -> None:
        """Learn the columns, and go on behind the rows that are in Kafka."""
        if self._options["query"]:
            kept = await offsets.read([{"query": "query"}])
            await self._apart(lambda: self._prepare([], kept))
            return
        names = [name_of(schema, table) for schema, table in self._tables]
        new = await offsets.read([{"protocol": "1", "table": each} for each in names])
        old = await offsets.read([{"table": table} for _, table in self._tables])
        kept = [here if here is not None else before for here, before in zip(new, old, strict=True)]
        await self._apart(lambda: self._prepare(names, kept))

    async def read(self) -> list[SourceRecord] | None:
        """The next rows of the table whose turn it is; None behind the last one of a piece."""
        loop = asyncio.get_running_loop()
        while not self._ended:
            poller = min(self._pollers, key=lambda each: each.due)
            if (left := poller.due - loop.time()) > 0:
                await asyncio.sleep(left)
            if records := await self._turn(poller):
                return records
        return None

    async def close(self) -> None:
        """End the statements and the connections, once a poll in progress has ended."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._end)
        self._thread.shutdown()

    async def _turn(self, poller: Poller) -> list[SourceRecord]:
        """The next rows of one table."""
        records, ended = await self._apart(poller.page)
        if ended:
            self._put_off(poller)
            self._ended = self._piece is not None
        return records

    def _put_off(self, poller: Poller) -> None:
        poller.due = asyncio.get_running_loop().time() + self._interval

    def _prepare(self, names: Sequence[str], kept: Sequence[SourceOffset | None]) -> None:
        from ottla.connect.plugins.jdbc.pieces import TablePiece
        from ottla.connect.plugins.jdbc.polling import Poller
        from ottla.connect.plugins.jdbc.reading import query_of, table_of

        self._engine = engine = engine_of(self._options)
        prefix = self._options["topic.prefix"]
        if self._options["query"]:
            sources = [query_of(engine, self._options["query"], prefix)]
        else:
            sources = [
                table_of(engine, schema, table, name, prefix)
                for (schema, table), name in zip(self._tables, names, strict=True)
            ]
        for source, offset in zip(sources, kept, strict=True):
            piece = TablePiece.of_text(self._piece) if self._piece else None
            self._pollers.append(Poller(engine, source, self._options, offset, piece))

    def _end(self) -> None:
        for each in self._pollers:
            each.close()
        if self._engine is not None:
            self._engine.dispose()

    async def _apart(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: asked(ask))


class SnapshotTask(JdbcSourceTask):
    """Has tables without an offset read by Spark's workers up to their last row, and polls them behind it.

    The last row is noted first, once no row before it can be missing. Its offset is kept once all are in Kafka.
    """

    def __init__(
        self,
        config: Config,
        options: dict[str, Any],
        tables: Sequence[Table],
        read_pieces: ReadPieces,
    ) -> None:
        super().__init__(options, tables)
        self._config, self._read_pieces = config, read_pieces

    @property
    def phase(self) -> str:
        """Snapshot while a table is to be read in pieces, then streaming."""
        return "snapshot" if any(each.is_new for each in self._pollers) else "streaming"

    async def _turn(self, poller: Poller) -> list[SourceRecord]:
        if not poller.is_new:
            return await super()._turn(poller)
        now = asyncio.get_running_loop().time()
        last_rows: dict[Poller, Anchor] = {}
        for each in [each for each in self._pollers if each.is_new and each.due <= now]:
            last, is_sure = await self._apart(each.last_row)
            if not is_sure:
                self._put_off(each)
            elif last is None:
                each.go_on_behind(None)
            else:
                last_rows[each] = last
        return await self._snapshot(last_rows) if last_rows else []

    async def _snapshot(self, last_rows: Mapping[Poller, Anchor]) -> list[SourceRecord]:
        """Read tables side by side; the places up to which they were read."""
        pieces: list[TablePiece] = []
        for poller, last in last_rows.items():
            pieces += await self._apart(partial(poller.pieces, last))
        names = ", ".join(str(each.partition["table"]) for each in last_rows)
        log.info("a snapshot of %s begins, in %d pieces", names, len(pieces))
        await self._read_pieces([piece_config(self._config, each) for each in pieces])
        log.info("the snapshot of %s is complete", names)
        for poller, last in last_rows.items():
            poller.go_on_behind(last)
        return [
            PassedPlace("", source_partition=poller.partition, source_offset=last.offset(), at_once=True)
            for poller, last in last_rows.items()
        ]
