"""Rows for PostgreSQL column by column: one statement with an array for each column, however many rows there are.

A statement for each row would cost the driver several times as much, and one with all values of all rows would be
parsed anew each time.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Select, Table, bindparam, func, select
from sqlalchemy import column as column_named
from sqlalchemy import types as sql
from sqlalchemy.dialects import postgresql

from ottla.connect.data import Type
from ottla.connect.plugins.jdbc.rows import Shape

_KINDS: Final = (
    sql.Integer, sql.Numeric, sql.Float, sql.Boolean, sql.String, sql.LargeBinary, sql.DateTime, sql.Date, sql.Time,
)  # fmt: skip
_FLOATS: Final = (Type.FLOAT32, Type.FLOAT64)


def go_by_columns(table: Table, shape: Shape) -> bool:
    """True where each column takes an array of its values: of one type by its schema, and none an array itself."""
    kinds = [table.columns[each.name].type for each in shape.fields]
    return all(each.schema is not None and each.schema.type is not Type.ARRAY for each in shape.fields) and all(
        isinstance(each, _KINDS) and not isinstance(each, sql.Enum) for each in kinds
    )


def unnested(table: Table, shape: Shape) -> tuple[list[str], Select[Any]]:
    """The names of the columns, and the rows of the arrays `columns_of` gives."""
    kinds = [_in_array(table.columns[each.name].type) for each in shape.fields]
    arrays = [bindparam(f"c{at}", type_=postgresql.ARRAY(kind)) for at, kind in enumerate(kinds)]
    columns = [column_named(f"c{at}", kind) for at, kind in enumerate(kinds)]
    return [each.name for each in shape.fields], select(func.unnest(*arrays).table_valued(*columns).render_derived())


def columns_of(rows: list[dict[str, Any]], shape: Shape) -> dict[str, list[Any]]:
    """The values of each column, for a statement of `unnested`."""
    found = {f"c{at}": [row[each.name] for row in rows] for at, each in enumerate(shape.fields)}
    for at, each in enumerate(shape.fields):
        if each.schema is not None and each.schema.type in _FLOATS:  # arrays take one class of numbers
            found[f"c{at}"] = [None if value is None else float(value) for value in found[f"c{at}"]]
    return found


def _in_array(kind: Any) -> Any:
    """The type of the elements. Text has no length there: a cast would cut what the column then refuses."""
    return sql.Text() if isinstance(kind, sql.String) else kind
