"""The statements of the sink: what a record is as a row, and batches of rows in transactions. All of it blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Engine, Table, and_, bindparam, delete, insert, update
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError, StatementError

from ottla.connect.data import INT32, INT64, STRING, Schema, Struct
from ottla.connect.errors import ConfigException, ConnectException, DataException
from ottla.connect.plugins.jdbc.columns import value_for
from ottla.connect.plugins.jdbc.database import MYSQL, may_pass, raised
from ottla.connect.plugins.jdbc.tables import ColumnField, Tables
from ottla.connect.records import SinkRecord

_KAFKA = ("__connect_topic", "__connect_partition", "__connect_offset")
Refused = list[tuple[SinkRecord, Exception]]


@dataclass(slots=True)
class _Row:
    """A record as a row. `fields` holds no more than the key where the row is deleted."""

    table: str
    fields: list[ColumnField]
    values: dict[str, Any]
    deleted: bool

    def group(self) -> tuple[Any, ...]:
        return self.table, self.deleted, tuple((each.name, each.schema, each.is_key) for each in self.fields)


class DatabaseWriter:
    """Writes batches to one database."""

    def __init__(self, engine: Engine, options: Mapping[str, Any]) -> None:
        self._engine, self._options = engine, options
        self._dialect = engine.dialect.name
        self._zone = ZoneInfo(options["db.timezone"])
        self._tables = Tables(engine, create=options["auto.create"], evolve=options["auto.evolve"])
        self._updates = options["insert.mode"] in ("upsert", "update")
        text = options["unavailable.value.placeholder"]
        self._unavailable = [text, text.encode(), [text], list(text.encode())] if text else []
        if options["insert.mode"] == "upsert" and self._dialect not in ("postgresql", "sqlite", *MYSQL):
            raise ConfigException(f"insert.mode=upsert is not known for {self._dialect}: use insert or update")

    def write(self, batch: list[SinkRecord], refused: Refused) -> None:
        """Write a batch in one transaction; split it where a record is refused, until that stands alone.

        `batch` loses the records that are done, so that a second call goes on with the rest.
        """
        size = len(batch)
        while batch:
            part = batch[:size]
            try:
                self._transaction(part)
            except DataException as fault:
                error: Exception = fault
            except SQLAlchemyError as fault:
                if not isinstance(fault, StatementError) or may_pass(fault):
                    raise raised(fault) from None
                error = raised(fault)
            else:
                del batch[: len(part)]
                size *= 2
                continue
            if len(part) == 1:
                refused.append((part[0], error))
                del batch[0]
            size = max(1, len(part) // 2)

    def close(self) -> None:
        """End the connections."""
        self._engine.dispose()

    def _transaction(self, part: list[SinkRecord]) -> None:
        rows = [self._row(each) for each in part]
        groups = [(key, list(group)) for key, group in groupby(rows, _Row.group)]
        tables = [self._tables.fitting(group[0].table, group[0].fields) for _, group in groups]
        with self._engine.begin() as connection:
            for table, (_, group) in zip(tables, groups, strict=True):
                self._execute(connection, table, group)

    def _execute(self, connection: Connection, table: Table, rows: list[_Row]) -> None:
        fields = rows[0].fields
        keys = [each.name for each in fields if each.is_key]
        others = [each.name for each in fields if not each.is_key]
        values = [
            {
                each.name: value_for(table.columns[each.name].type, each.schema, row.values[each.name], each.name,
                                     self._zone)
                for each in fields
            }
            for row in rows
        ]  # fmt: skip
        if rows[0].deleted:
            connection.execute(delete(table).where(_is(table, keys)), [_bound(each, keys) for each in values])
        elif self._options["insert.mode"] == "update":
            if others:
                statement = update(table).where(_is(table, keys)).values({each: bindparam(each) for each in others})
                connection.execute(statement, [{**_bound(each, keys), **each} for each in values])
        elif self._options["insert.mode"] == "upsert":
            connection.execute(self._upsert(table, keys, others), values)
        else:
            connection.execute(insert(table), values)

    def _upsert(self, table: Table, keys: list[str], others: list[str]) -> Any:
        if self._dialect in MYSQL:
            made = mysql.insert(table)
            return made.on_duplicate_key_update({each: made.inserted[each] for each in others or keys})
        statement = (postgresql if self._dialect == "postgresql" else sqlite).insert(table)
        if not others:
            return statement.on_conflict_do_nothing(index_elements=keys)
        return statement.on_conflict_do_update(
            index_elements=keys, set_={each: statement.excluded[each] for each in others}
        )

    def _row(self, record: SinkRecord) -> _Row:
        table = self._options["table.name.format"].replace("${topic}", record.topic)
        key = self._key(record)
        if record.value is None and self._options["delete.enabled"]:
            return _Row(table, [each for each, _ in key], {each.name: value for each, value in key}, deleted=True)
        pairs = list(key)
        taken = {each.name for each, _ in key}
        wanted = self._options["fields.whitelist"]
        for name, schema, value in _fields(record.value, record.value_schema, "value"):
            if name not in taken and (not wanted or name in wanted) and not self._unchanged(value):
                pairs.append((ColumnField(name, schema, is_key=False), value))
        return _Row(table, [each for each, _ in pairs], {each.name: value for each, value in pairs}, deleted=False)

    def _unchanged(self, value: Any) -> bool:
        """True for the placeholder of change capture; a new row takes it as it is, for there is no other value."""
        return self._updates and isinstance(value, str | bytes | list) and value in self._unavailable

    def _key(self, record: SinkRecord) -> list[tuple[ColumnField, Any]]:
        wanted, mode = self._options["pk.fields"], self._options["pk.mode"]
        if mode == "none":
            return []
        if mode == "kafka":
            place = (record.original_topic, record.original_partition, record.offset)
            names = wanted or _KAFKA
            return [(ColumnField(*each[:2], is_key=True), each[2]) for each in zip(names, (STRING, INT32, INT64), place,
                                                                             strict=True)]  # fmt: skip
        if mode == "record_value":
            found = _fields(record.value, record.value_schema, "value")
        elif record.key is None:
            raise DataException("the record has no key, and pk.mode is record_key")
        elif isinstance(record.key, Struct | dict):
            found = _fields(record.key, record.key_schema, "key")
        elif len(wanted) == 1:
            found = [(wanted[0], record.key_schema, record.key)]
        else:
            raise DataException(f"the key is one value: name its column in pk.fields, not {len(wanted)} of them")
        by_name = {name: (name, schema, value) for name, schema, value in found}
        if lacking := [each for each in wanted if each not in by_name]:
            raise DataException(
                f"the record lacks the fields {', '.join(lacking)} of pk.fields: it has {list(by_name)}"
            )
        chosen = [by_name[each] for each in wanted] if wanted else found
        return [(ColumnField(name, schema, is_key=True), value) for name, schema, value in chosen]


def _fields(value: Any, schema: Schema | None, part: str) -> list[tuple[str, Schema | None, Any]]:
    if isinstance(value, Struct):
        members = zip(value.schema.members, value.filled(), strict=True)
        return [(each.name, each.schema, found) for each, found in members]
    if isinstance(value, dict) and schema is None:
        return [(str(name), None, found) for name, found in value.items()]
    what = "null" if value is None else "no structure"
    more = ": set delete.enabled=true, or drop tombstones by a transformation" if value is None else ""
    raise DataException(f"the record's {part} is {what}{more}")


def _is(table: Table, keys: list[str]) -> Any:
    if not keys:
        raise ConnectException("a row cannot be found without a primary key: set pk.mode")
    return and_(*(table.columns[each] == bindparam(f"__key_{index}") for index, each in enumerate(keys)))


def _bound(values: Mapping[str, Any], keys: list[str]) -> dict[str, Any]:
    return {f"__key_{index}": values[each] for index, each in enumerate(keys)}
