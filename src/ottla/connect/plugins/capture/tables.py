"""Tables and columns as the catalog describes them, and which of them a configuration captures. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ottla.connect.errors import ConfigException
from ottla.connect.plugins.capture.pgoutput import Relation
from ottla.connect.plugins.capture.types import PgType

_NOT_IN_TOPICS: Final = re.compile(r"[^a-zA-Z0-9._-]")
_NOT_IN_AVRO: Final = re.compile(r"[^a-zA-Z0-9_]")
TEXTS: Final = frozenset({"text", "varchar", "bpchar", "char", "name", "citext"})


@dataclass(frozen=True, slots=True)
class TypeEntry:
    """A type by its number. A domain is its base type, with the modifier that it sets."""

    kind: PgType
    modifier: int = -1


UNKNOWN_TYPE: Final = TypeEntry(PgType("unknown"))


class Kind(Protocol):
    """A type of any database."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind
    modifier: int = -1
    optional: bool = True
    default: str | None = None
    """The expression of its default."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    """The columns of the primary key, or of the index that is the replica identity."""

    @property
    def full_name(self) -> str:
        """SCHEMA.TABLE."""
        return f"{self.schema}.{self.name}"

    def as_sent(self, relation: Relation, types: Mapping[int, TypeEntry]) -> Table:
        """The table as changes describe it, whatever has become of it since. Generated columns are not in changes.

        Whether a column may be null, and its default, are not described: they are taken as they are now.
        """
        now = {each.name: each for each in self.columns}
        columns = []
        for each in relation.columns:
            entry = types.get(each.type_oid, UNKNOWN_TYPE)
            modifier = each.type_modifier if each.type_modifier >= 0 else entry.modifier
            known = now.get(each.name, Column(each.name, entry.kind))
            columns.append(replace(known, kind=entry.kind, modifier=modifier))
        key = self.key
        if relation.identity == "d":
            key = tuple(each.name for each in relation.columns if each.in_identity)
        names = {each.name for each in columns}
        return Table(relation.schema, relation.table, tuple(columns), tuple(each for each in key if each in names))

    def with_null(self, name: str) -> Table:
        """The table with a column that may be null."""
        columns = (replace(each, optional=True) if each.name == name else each for each in self.columns)
        return replace(self, columns=tuple(columns))


class Selection:
    """The tables and columns that a configuration captures. Patterns match whole names, in any case."""

    def __init__(self, options: Mapping[str, Any], builtin: re.Pattern[str]) -> None:
        """`builtin` matches the schemas of the server itself."""
        self._schemas = _Filter(options, "schema")
        self._tables = _Filter(options, "table")
        self._columns = _Filter(options, "column")
        self._builtin = builtin if options["table.ignore.builtin"] else None
        self._keys = _key_columns(options["message.key.columns"])

    def table(self, schema: str, name: str) -> bool:
        """True if a table is captured."""
        if self._builtin is not None and self._builtin.fullmatch(schema):
            return False
        return self._schemas.takes(schema) and self._tables.takes(f"{schema}.{name}")

    def order(self, schema: str, name: str) -> int:
        """The place of a table in the snapshot: that of its pattern in table.include.list."""
        return self._tables.place(f"{schema}.{name}")

    def column(self, table: Table, name: str) -> bool:
        """True if a column is captured. A column of the key always is."""
        return self._columns.takes(f"{table.full_name}.{name}")

    def key(self, table: Table) -> Sequence[str]:
        """The columns of the records' keys."""
        for pattern, columns in self._keys:
            if pattern.fullmatch(table.full_name):
                return columns
        return table.key


class _Filter:
    """A list of patterns to include, or one to exclude."""

    def __init__(self, options: Mapping[str, Any], what: str) -> None:
        given = {kind: options[f"{what}.{kind}.list"] or [] for kind in ("include", "exclude")}
        if given["include"] and given["exclude"]:
            raise ConfigException(f"{what}.include.list and {what}.exclude.list exclude each other: set one of them")
        self._include, self._exclude = (
            [re.compile(each, re.IGNORECASE) for each in given[kind]] for kind in ("include", "exclude")
        )

    def takes(self, name: str) -> bool:
        if self._include:
            return any(each.fullmatch(name) for each in self._include)
        return not any(each.fullmatch(name) for each in self._exclude)

    def place(self, name: str) -> int:
        return next((index for index, each in enumerate(self._include) if each.fullmatch(name)), 0)


def _key_columns(text: str | None) -> list[tuple[re.Pattern[str], list[str]]]:
    """The pairs of `message.key.columns`: TABLES:COLUMN,COLUMN;…"""
    found = []
    for entry in filter(None, (each.strip() for each in (text or "").split(";"))):
        tables, colon, columns = entry.rpartition(":")
        names = [each.strip() for each in columns.split(",")]
        if not colon or not all(names):
            raise ConfigException.of("message.key.columns", text, "write SCHEMA.TABLE:COLUMN,COLUMN;…")
        found.append((re.compile(tables, re.IGNORECASE), names))
    return found


def topic_of(prefix: str, table: Table, delimiter: str = ".") -> str:
    """The topic of a table: PREFIX.SCHEMA.TABLE, with an underscore for what no topic may have in its name."""
    return _NOT_IN_TOPICS.sub("_", delimiter.join((prefix, table.schema, table.name)))


def adjusted(name: str, mode: str) -> str:
    """The name of a schema or of a field as Avro allows it, if that is asked for. Dots separate names."""
    if mode == "none":
        return name
    parts = [_NOT_IN_AVRO.sub("_", each) for each in name.split(".")]
    return ".".join(f"_{each}" if each[:1].isdigit() else each for each in parts)
