"""The JDBC source: tables of a database become topics, and each poll adds the rows that are new."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import ConfigException
from ottla.connect.plugins.base import (
    Config,
    OffsetReader,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)  # fmt: skip
from ottla.connect.plugins.jdbc.anchor import Anchor
from ottla.connect.plugins.jdbc.database import MYSQL, engine_of, raised
from ottla.connect.plugins.jdbc.options import SOURCE
from ottla.connect.records import SourceRecord

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ottla.connect.plugins.jdbc.polling import Poller

T = TypeVar("T")
VERSION: Final = "10.8.0"
"""The version of Confluent's connectors whose options these have."""
_LISTS: Final = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")
_TABLES: Final = "tables"
"""The option of a task that names its tables, as a list in JSON of schema or null, and table."""
_PIECE: Final = "piece"
"""The option of a task that reads once and ends: its part of a table, empty for all."""


class JdbcSourceConnector(SourceConnector):
    """Reads the rows of tables."""

    java_class = "io.confluent.connect.jdbc.JdbcSourceConnector"
    version = VERSION
    topic_option = "topic.prefix"
    runners = ("light", "spark")

    @classmethod
    def options(cls) -> ConfigDef:
        return SOURCE

    @classmethod
    def against_spark(cls, config: Config) -> str:
        """Spark reads tables whole."""
        return "" if config.get("mode") == "bulk" else "it reads tables whole, which is mode=bulk"

    @classmethod
    def pause_s(cls, config: Config) -> float:
        """The poll interval."""
        pause: int = SOURCE.parse(config)["poll.interval.ms"]
        return pause / 1000

    @classmethod
    def pieces(cls, config: Config) -> list[dict[str, str]]:
        """The tables that there are now, the large ones in several pieces. A query is one piece."""
        from ottla.connect.plugins.jdbc.pieces import pieces_of

        options = _checked(config)
        if options["query"]:
            return [{**config, _PIECE: ""}]
        engine = engine_of(options)
        try:
            found = _asked(lambda: [each for place in _tables(engine, options) for each in pieces_of(engine, *place)])
        finally:
            engine.dispose()
        return [{**config, _TABLES: json.dumps([[each.schema, each.table]]), _PIECE: each.as_text()} for each in found]

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """The tables there are now, shared out. Tables made later are read once the connector has restarted."""
        options = _checked(config)
        if options["query"]:
            return [dict(config)]
        engine = engine_of(options)
        try:
            tables = _asked(lambda: list(_tables(engine, options)))
        finally:
            engine.dispose()
        if not tables:
            raise ConfigException("no table of the database fits table.*, schema.pattern and table.types")
        shares = [tables[index::most] for index in range(min(most, len(tables)))]
        return [{**config, _TABLES: json.dumps(share)} for share in shares]

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        options = _checked(config)
        tables = [] if options["query"] else [(each[0], each[1]) for each in json.loads(config[_TABLES])]
        return JdbcSourceTask(options, tables, config.get(_PIECE))

    @classmethod
    def exactly_once(cls, config: Config) -> bool | None:
        """Ids that only grow tell one row from the other; `bulk` reads all rows again. Times alone may be equal."""
        mode = config.get("mode", "bulk")
        return True if "incrementing" in mode else False if mode == "bulk" else None

    @classmethod
    def check_offsets(cls, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Partitions name tables, or stand for the query; offsets are those of `Anchor`."""
        for partition, offset in offsets:
            if config.get("query"):
                if dict(partition) != {"query": "query"}:
                    raise ConfigException('The partition of a query is {"query": "query"}')
            elif not {"table"} <= set(partition) <= {"protocol", "table"}:
                raise ConfigException('A partition is {"protocol": "1", "table": NAME}')
            Anchor.of(offset)


def _checked(config: Config) -> dict[str, Any]:
    options = SOURCE.parse(config)
    if options["query"]:
        _check_query(options, config)
    if "timestamp" in options["mode"] and not options["timestamp.column.name"]:
        raise ConfigException(f"mode={options['mode']} needs timestamp.column.name")
    if strange := set(options["table.types"]) - {"TABLE", "VIEW"}:
        raise ConfigException.of("table.types", sorted(strange), "the types are TABLE and VIEW")
    if len([each for each in _LISTS[:2] if options[each]]) == 2:
        raise ConfigException("table.whitelist and table.blacklist are mutually exclusive")
    if (options[_LISTS[0]] or options[_LISTS[1]]) and (options[_LISTS[2]] or options[_LISTS[3]]):
        raise ConfigException("table.whitelist and table.blacklist cannot be set together with table.*.list")
    return options


def _check_query(options: Mapping[str, Any], config: Config) -> None:
    beside = [each for each in (*_LISTS, "catalog.pattern", "schema.pattern", "table.types") if config.get(each)]
    if beside:
        raise ConfigException(f"{beside[0]} cannot be set together with query: the query says what is read")
    if "incrementing" in options["mode"] and not options["incrementing.column.name"]:
        raise ConfigException(f"mode={options['mode']} with a query needs incrementing.column.name")


def _asked(ask: Callable[[], T]) -> T:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return ask()
    except SQLAlchemyError as fault:
        raise raised(fault) from None


def _tables(engine: Engine, options: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    from sqlalchemy import inspect

    look = inspect(engine)
    if engine.dialect.name == "postgresql":
        like = options["schema.pattern"] or "%"
        schemas: list[str | None] = [each for each in look.get_schema_names() if _like(like, each)]
        schemas = [each for each in schemas if each and not each.startswith("pg_") and each != "information_schema"]
    elif engine.dialect.name in MYSQL:
        if options["schema.pattern"]:
            raise ConfigException("schema.pattern: MariaDB has no schemas below its databases; set catalog.pattern")
        schemas = [options["catalog.pattern"] or engine.url.database]
        if schemas == [None]:
            raise ConfigException("connection.url names no database: add it, or set catalog.pattern")
    else:
        schemas = [options["schema.pattern"]]
    for schema in schemas:
        names = look.get_table_names(schema) if "TABLE" in options["table.types"] else []
        names += look.get_view_names(schema) if "VIEW" in options["table.types"] else []
        yield from ((schema, each) for each in sorted(names) if _wanted(schema, each, options))


def _like(pattern: str, name: str) -> bool:
    parts = (".*" if each == "%" else "." if each == "_" else re.escape(each) for each in pattern)
    return re.fullmatch("".join(parts), name) is not None


def _wanted(schema: str | None, table: str, options: Mapping[str, Any]) -> bool:
    names = {table, name_of(schema, table)}
    if options["table.whitelist"]:
        return bool(names & set(options["table.whitelist"]))
    included, excluded = options["table.include.list"], options["table.exclude.list"]
    if included and not any(re.fullmatch(pattern, name) for pattern in included for name in sorted(names)):
        return False
    if any(re.fullmatch(pattern, name) for pattern in excluded for name in sorted(names)):
        return False
    return not names & set(options["table.blacklist"])


def name_of(schema: str | None, table: str) -> str:
    """A table's name in offsets."""
    return f"{schema}.{table}" if schema else table


class JdbcSourceTask(SourceTask):
    """Polls its tables in turn, each once in a poll interval. The database is asked in a thread of the task's own."""

    def __init__(
        self, options: dict[str, Any], tables: Sequence[tuple[str | None, str]], piece: str | None = None
    ) -> None:
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
            records, ended = await self._apart(poller.page)
            if ended:
                poller.due = loop.time() + self._interval
                self._ended = self._piece is not None
            if records:
                return records
        return None

    async def close(self) -> None:
        """End the statements and the connections, once a poll in progress has ended."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._end)
        self._thread.shutdown()

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
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: _asked(ask))
