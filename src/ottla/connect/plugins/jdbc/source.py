"""The JDBC source: tables of a database become topics, and each poll adds the rows that are new."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import ConfigException
from ottla.connect.plugins.base import (
    RUNNER,
    Config,
    ReadPieces,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)  # fmt: skip
from ottla.connect.plugins.jdbc.anchor import Anchor
from ottla.connect.plugins.jdbc.database import MYSQL, asked, engine_of
from ottla.connect.plugins.jdbc.options import SOURCE
from ottla.connect.plugins.jdbc.source_task import (
    PIECE,
    TABLES,
    JdbcSourceTask,
    SnapshotTask,
    Table,
    name_of,
    piece_config,
)  # fmt: skip

if TYPE_CHECKING:
    from sqlalchemy import Engine

VERSION: Final = "10.8.0"
"""The version of Confluent's connectors whose options these have."""
_LISTS: Final = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")


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
        """A query with an order is one statement, which Spark's workers cannot share."""
        if config.get("query") and config.get("mode") != "bulk":
            return "it reads a query with mode=bulk alone"
        return ""

    @classmethod
    def pause_s(cls, config: Config) -> float:
        """The poll interval."""
        pause: int = SOURCE.parse(config)["poll.interval.ms"]
        return pause / 1000

    @classmethod
    def pieces(cls, config: Config) -> list[dict[str, str]]:
        """The tables that there are now, the large ones in several pieces. A query is one piece."""
        from ottla.connect.plugins.jdbc.pieces import pieces_of
        from ottla.connect.plugins.jdbc.reading import reflected

        options = _checked(config)
        if options["query"]:
            return [{**config, PIECE: ""}]
        engine = engine_of(options)
        try:
            found = asked(
                lambda: [
                    each for place in _tables(engine, options) for each in pieces_of(engine, reflected(engine, *place))
                ]
            )
        finally:
            engine.dispose()
        return [piece_config(config, each) for each in found]

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """The tables there are now, shared out. Tables made later are read once the connector has restarted."""
        options = _checked(config)
        if options["query"]:
            return [dict(config)]
        engine = engine_of(options)
        try:
            tables = asked(lambda: list(_tables(engine, options)))
        finally:
            engine.dispose()
        if not tables:
            raise ConfigException("no table of the database fits table.*, schema.pattern and table.types")
        shares = [tables[index::most] for index in range(min(most, len(tables)))]
        return [{**config, TABLES: json.dumps(share)} for share in shares]

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        options = _checked(config)
        return JdbcSourceTask(options, [] if options["query"] else _shared(config), config.get(PIECE))

    @classmethod
    def task_after_pieces(cls, config: Config, read_pieces: ReadPieces) -> SourceTask | None:
        """In a mode that finds new rows: a task that reads tables in pieces first, and then polls them."""
        if config.get("mode") == "bulk":
            return None
        return SnapshotTask(config, _checked(config), _shared(config), read_pieces)

    @classmethod
    def exactly_once(cls, config: Config) -> bool | None:
        """Ids that only grow tell one row from the other; `bulk` reads all rows again. Times alone may be equal.

        On Spark a snapshot that was cut short is read again.
        """
        mode = "bulk" if config.get(RUNNER) == "spark" else config.get("mode", "bulk")
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


def _shared(config: Config) -> list[Table]:
    """The tables of one task."""
    return [(each[0], each[1]) for each in json.loads(config[TABLES])]


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


def _tables(engine: Engine, options: Mapping[str, Any]) -> Iterator[Table]:
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
