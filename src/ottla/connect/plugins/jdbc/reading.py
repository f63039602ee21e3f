"""The place that a poller reads from: a table, or the rows of a query, whose columns the database itself tells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine, FromClause, MetaData, Table, column, text

from ottla.connect.errors import ConfigException
from ottla.connect.plugins.jdbc.database import MYSQL

QUERY_PARTITION: Final[dict[str, Any]] = {"query": "query"}
"""The partition of a query's offsets, as Confluent's connector names it."""
_NAME: Final = "ottla_query"
_PARAMETER: Final = re.compile(r"(?<![:\w\\]):(?=\w)")


@dataclass(frozen=True, slots=True)
class Readable:
    """Columns as they were reflected, and the rows to select from."""

    name: str
    """Its name in offsets and in messages."""
    topic: str
    partition: dict[str, Any]
    columns: Table
    rows: FromClause
    schema_name: str | None
    is_query: bool = False


def table_of(engine: Engine, schema: str | None, table: str, name: str, prefix: str) -> Readable:
    """A table of the database."""
    found = reflected(engine, schema, table)
    return Readable(name, prefix + table, {"protocol": "1", "table": name}, found, found, table)


def reflected(engine: Engine, schema: str | None, table: str) -> Table:
    """A table with its columns and keys, as the database tells them."""
    return Table(table, MetaData(), schema=schema, autoload_with=engine)


def query_of(engine: Engine, query: str, topic: str) -> Readable:
    """A query. A temporary object without rows has its columns, so their types are those of a table."""
    inner = query.strip().rstrip(";").rstrip()
    preparer = engine.dialect.identifier_preparer
    with engine.connect() as connection:
        made = "VIEW" if engine.dialect.name == "sqlite" else "TABLE"
        rows = "" if made == "VIEW" else " LIMIT 0"
        alias = "" if engine.dialect.name == "oracle" else "AS "
        connection.execute(text(
            f"CREATE TEMPORARY {made} {preparer.quote(_NAME)} AS SELECT * FROM ({_plain(inner)}) {alias}q{rows}"
        ))  # fmt: skip
        found = Table(_NAME, MetaData(), autoload_with=connection)
        drop = "TEMPORARY TABLE" if engine.dialect.name in MYSQL else made
        connection.execute(text(f"DROP {drop} {preparer.quote(_NAME)}"))
        connection.rollback()
    names = {each.name for each in found.columns}  # SQLite numbers a name that comes twice
    if twice := sorted(name for name in names if name.endswith(":1") and name[:-2] in names):
        raise ConfigException(f"query: two columns have one name, {twice[0][:-2]}: name one with AS")
    parts = text(_plain(inner)).columns(*(column(each.name, each.type) for each in found.columns))
    return Readable("query", topic, QUERY_PARTITION, found, parts.subquery("q"), None, is_query=True)


def _plain(query: str) -> str:
    """The text with colons that begin no parameter."""
    return _PARAMETER.sub(r"\\:", query)
