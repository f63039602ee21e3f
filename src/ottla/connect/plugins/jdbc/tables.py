"""The tables that the sink writes to: looked up once, and made or widened where the options allow it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Column, Engine, MetaData, Table
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.schema import CreateColumn

from ottla.config.option import nearest
from ottla.connect.data import Schema
from ottla.connect.errors import ConnectException, DataException
from ottla.connect.plugins.jdbc.columns import written_as


@dataclass(frozen=True, slots=True)
class ColumnField:
    """A field of a record as a column; the schema is None in data without one."""

    name: str
    schema: Schema | None
    is_key: bool


class Tables:
    """The tables of one database by their names, SCHEMA.TABLE or TABLE."""

    def __init__(self, engine: Engine, *, create: bool, evolve: bool) -> None:
        self._engine, self._create, self._evolve = engine, create, evolve
        self._known: dict[str, Table] = {}

    def fitting(self, name: str, fields: list[ColumnField]) -> Table:
        """The table, with a column for each field."""
        table = self._known[name] if name in self._known else self._looked_up(name)
        if table is None:
            if not self._create:
                raise ConnectException(f"the table {name} does not exist: create it, or set auto.create=true")
            self._made(name, fields)
            table = self._looked_up(name)
            assert table is not None
        if lacking := [each for each in fields if each.name not in table.columns]:
            table = self._looked_up(name)  # another task may have widened it
            assert table is not None
            lacking = [each for each in fields if each.name not in table.columns]
            if lacking:
                self._widen(table, lacking)
                table = self._looked_up(name)
                assert table is not None
        return table

    def _looked_up(self, name: str) -> Table | None:
        schema, _, short = name.rpartition(".")
        try:
            found = Table(short, MetaData(), schema=schema or None, autoload_with=self._engine)
        except NoSuchTableError:
            return None
        self._known[name] = found
        return found

    def _made(self, name: str, fields: list[ColumnField]) -> None:
        schema, _, short = name.rpartition(".")
        columns = [self._column(each, may_be_null=not each.is_key and _optional(each)) for each in fields]
        Table(short, MetaData(), *columns, schema=schema or None).create(self._engine, checkfirst=True)

    def _widen(self, table: Table, lacking: list[ColumnField]) -> None:
        names = ", ".join(each.name for each in lacking)
        if not self._evolve:
            known = nearest(lacking[0].name, table.columns.keys())
            raise DataException(f"the table {table.name} lacks the columns {names}{known}: add them, or set "
                                "auto.evolve=true, or fields.whitelist")  # fmt: skip
        for each in lacking:
            if each.schema is not None and not _optional(each):
                raise DataException(
                    f"the table {table.name} lacks the column {each.name}, which may not be null: rows there have no "
                    "value for it; make the field optional or give it a default"
                )
        preparer = self._engine.dialect.identifier_preparer
        with self._engine.begin() as connection:
            for each in lacking:
                column = self._column(each, may_be_null=True)
                clause = CreateColumn(column).compile(dialect=self._engine.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {preparer.format_table(table)} ADD COLUMN {clause}")

    def _column(self, field: ColumnField, *, may_be_null: bool) -> Column[object]:
        if field.schema is None:
            raise DataException(
                f"the field {field.name} has no schema, so its column cannot be made: create it, or use a converter "
                "that keeps schemas"
            )
        kind = written_as(field.schema, field.name, self._engine.dialect.name, is_key=field.is_key)
        return Column(field.name, kind, primary_key=field.is_key, nullable=may_be_null, autoincrement=False)


def _optional(field: ColumnField) -> bool:
    return field.schema is None or field.schema.optional or field.schema.default is not None
