"""Columns under new names: which of a table's columns a round has renamed, by the former names noted in its schema.

Pure. Delta's log cannot rename a column without column mapping, which few readers know: its files are rewritten.
Iceberg renames the column itself, whose id stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ottla.formats.columns import is_list
from ottla.formats.evolution import aliases

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnRename:
    """One column's, or member's, path in the table as it is, and its new name."""

    path: Path
    name: str


def moves(held: pa.Schema, wanted: pa.Schema) -> list[ColumnRename]:
    """The renames that make a table's names those of a round."""
    found: list[ColumnRename] = []
    _renamed(pa.struct(list(held)), pa.struct(list(wanted)), (), found)
    return found


def renamed_schema(held: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """A table's columns under the names of a round."""
    return pa.schema(list(_renamed(pa.struct(list(held)), pa.struct(list(wanted)), (), [])))


def renamed_rows(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Rows of an older file under the names of a round."""
    schema = renamed_schema(rows.schema, wanted)
    columns = [_under(column, each.type) for column, each in zip(rows.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _under(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)


def _renamed(held: pa.DataType, wanted: pa.DataType, path: Path, found: list[ColumnRename]) -> pa.DataType:
    if pa.types.is_struct(held) and pa.types.is_struct(wanted):
        return _members(held, wanted, path, found)
    if is_list(held) and is_list(wanted):
        inside = _renamed(held.value_type, wanted.value_type, (*path, "element"), found)
        item = held.value_field.with_type(inside)
        return pa.large_list(item) if pa.types.is_large_list(held) else pa.list_(item)
    if pa.types.is_map(held) and pa.types.is_map(wanted):
        inside = _renamed(held.item_type, wanted.item_type, (*path, "value"), found)
        return pa.map_(held.key_field, held.item_field.with_type(inside))
    return held


def _members(held: pa.DataType, wanted: pa.DataType, path: Path, found: list[ColumnRename]) -> pa.DataType:
    taken = {field.name.casefold() for field in held}
    wants = {field.name for field in wanted}
    now: dict[str, pa.Field] = {field.name: field for field in wanted}
    for field in wanted:
        former = next((name for name in aliases(field) if held.get_field_index(name) >= 0 and name not in wants), None)
        if former is not None and field.name.casefold() not in taken - {former.casefold()}:
            now[former] = field
    fields = []
    for field in held:
        other = now.get(field.name)
        if other is None:
            fields.append(field)
            continue
        if other.name != field.name:
            found.append(ColumnRename((*path, field.name), other.name))
        inside = _renamed(field.type, other.type, (*path, field.name), found)
        fields.append(field.with_name(other.name).with_type(inside))
    return pa.struct(fields)
