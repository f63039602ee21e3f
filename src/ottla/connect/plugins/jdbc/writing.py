"""The statements of the sink: batches of rows in transactions. All of it blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Engine, Table, and_, bindparam, delete, insert, update
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError, StatementError

from ottla.connect.errors import ConfigException, ConnectException, DataException
from ottla.connect.plugins.jdbc.by_columns import columns_of, go_by_columns, unnested
from ottla.connect.plugins.jdbc.database import MYSQL, may_pass, raised
from ottla.connect.plugins.jdbc.rows import Rows, Shape, bound
from ottla.connect.plugins.jdbc.tables import Tables
from ottla.connect.records import SinkRecord

Refused = list[tuple[SinkRecord, Exception]]


class DatabaseWriter:
    """Writes batches to one database."""

    def __init__(self, engine: Engine, options: Mapping[str, Any]) -> None:
        self._engine, self._options = engine, options
        self._dialect = engine.dialect.name
        self._zone = ZoneInfo(options["db.timezone"])
        self._tables = Tables(engine, create=options["auto.create"], evolve=options["auto.evolve"])
        self._rows = Rows(options)
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
        rows = [self._rows.of(each) for each in part]
        groups = [(shape, [values for _, values in group]) for shape, group in groupby(rows, itemgetter(0))]
        tables = [self._tables.fitting(shape.table, list(shape.fields)) for shape, _ in groups]
        with self._engine.begin() as connection:
            for table, (shape, group) in zip(tables, groups, strict=True):
                self._execute(connection, table, shape, group)

    def _execute(self, connection: Connection, table: Table, shape: Shape, rows: list[Sequence[Any]]) -> None:
        keys = [each.name for each in shape.fields if each.is_key]
        others = [each.name for each in shape.fields if not each.is_key]
        values = list(map(bound(shape, table, self._zone), rows))
        mode = self._options["insert.mode"]
        if shape.deleted:
            connection.execute(delete(table).where(_is(table, keys)), [_bound(each, keys) for each in values])
        elif mode == "update":
            if others:
                statement = update(table).where(_is(table, keys)).values({each: bindparam(each) for each in others})
                connection.execute(statement, [{**_bound(each, keys), **each} for each in values])
        elif self._dialect == "postgresql" and go_by_columns(table, shape):
            inserted = self._inserted(table, mode, keys, others).from_select(*unnested(table, shape))
            for run in _runs(values, keys) if mode == "upsert" else [values]:
                connection.execute(inserted, columns_of(run, shape))
        else:
            connection.execute(self._inserted(table, mode, keys, others), values)

    def _inserted(self, table: Table, mode: str, keys: list[str], others: list[str]) -> Any:
        return self._upsert(table, keys, others) if mode == "upsert" else insert(table)

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


def _is(table: Table, keys: list[str]) -> Any:
    if not keys:
        raise ConnectException("a row cannot be found without a primary key: set pk.mode")
    return and_(*(table.columns[each] == bindparam(f"__key_{index}") for index, each in enumerate(keys)))


def _runs(rows: list[dict[str, Any]], keys: list[str]) -> list[list[dict[str, Any]]]:
    """The rows in their order, cut where a key comes again: one statement cannot change a row twice."""
    runs: list[list[dict[str, Any]]] = [[]]
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        key = tuple([tuple(each) if isinstance(each := row[name], list) else each for name in keys])
        if key in seen:
            runs.append([])
            seen.clear()
        seen.add(key)
        runs[-1].append(row)
    return runs


def _bound(values: Mapping[str, Any], keys: list[str]) -> dict[str, Any]:
    return {f"__key_{index}": values[each] for index, each in enumerate(keys)}
