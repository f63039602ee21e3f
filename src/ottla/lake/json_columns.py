"""JSON values as columns: whole blocks at a time by Arrow's own parser, row by row only where a block has a fault.

Comes from write.py, block by block. A column's type is that of the first values that showed it; values that do not
fit go to the dead letters. Fields that the schema does not know yet are reported, so that the plan can be widened
before anything of it is visible.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

RESERVED = frozenset({"key", "value", "headers", "partition", "offset", "timestamp", "topic", "date", "hour"})
"""Names that the record itself and the directories of the lake use; a field of that name gets `value_` before it."""

EMPTY = pa.schema([])


Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Block:
    """The columns of the rows that could be read, which rows those are, and why others could not.

    `wanted` is the schema that all rows need; where it is not the one given, `table` is None.
    """

    table: pa.Table | None
    good: Mask
    faults: list[tuple[int, str]]
    wanted: pa.Schema


def pack_schema(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")


def unpack_schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def column_names(schema: pa.Schema) -> list[str]:
    """The columns' names in the lake: a reserved name, and what would collide with its substitute, is prefixed."""
    taken: set[str] = set(RESERVED)
    names = []
    for name in sorted(schema.names, key=lambda name: (name in RESERVED, name)):
        own = name
        while own in taken:
            own = f"value_{own}"
        taken.add(own)
        names.append((name, own))
    renamed = dict(names)
    return [renamed[name] for name in schema.names]


def decode(values: pa.Array, schema: pa.Schema, *, fixed: bool) -> Block:
    """Read one JSON object per value; null values are rows of nulls.

    `fixed`: files with these types are in the lake already, so that int64 must not become double any more.
    """
    rows = len(values)
    everything = np.ones(rows, dtype=np.bool_)
    if rows in (0, values.null_count):
        return Block(_nulls(schema, rows), everything, [], schema)
    if _one_object_each(values):
        parsed = _parse(values, schema)
        if parsed is not None and parsed.num_rows == rows:
            wanted = _usable_schema(parsed.schema, schema)
            return Block(_shaped(parsed, schema) if wanted.equals(schema) else None, everything, [], wanted)
    return _row_by_row(values, schema, fixed=fixed)


def merge(one: pa.Schema, other: pa.Schema, *, fixed: bool) -> pa.Schema:
    """Both schemas' columns; where types differ, numbers widen unless `fixed`, else the first stands."""
    fields = {field.name: field.type for field in one}
    for field in other:
        before = fields.get(field.name)
        fields[field.name] = field.type if before is None else _merge_types(before, field.type, fixed=fixed)
    return pa.schema(list(fields.items()))


def _one_object_each(values: pa.Array) -> bool:
    """UTF-8 without nulls, every value from { to }: then no object can reach over a separating newline."""
    if values.null_count or not _is_utf8(values):
        return False
    _, offsets_buffer, data_buffer = values.buffers()
    if data_buffer is None:
        return False
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    text = np.frombuffer(data_buffer, dtype=np.uint8)
    if np.any(offsets[1:] == offsets[:-1]):
        return False
    return bool(np.all(text[offsets[:-1]] == ord("{")) and np.all(text[offsets[1:] - 1] == ord("}")))


def _is_utf8(values: pa.Array) -> bool:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _parse(values: pa.Array, schema: pa.Schema) -> pa.Table | None:
    """All values by one call of Arrow's parser; None where it stumbles."""
    lines = pc.binary_join_element_wise(values, b"", b"\n")
    _, offsets_buffer, data_buffer = lines.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)
    first, last = int(offsets[lines.offset]), int(offsets[lines.offset + len(lines)])
    text = data_buffer.slice(first, last - first)
    try:
        return pa_json.read_json(
            pa.BufferReader(text),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=max(text.size, 1)),
            parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer"),
        )
    except pa.ArrowInvalid:
        return None


def _row_by_row(values: pa.Array, schema: pa.Schema, *, fixed: bool) -> Block:
    faults: list[tuple[int, str]] = []
    objects: dict[int, dict[str, object]] = {}
    wanted = schema
    for row, value in enumerate(values.to_pylist()):
        document, why = _object(value)
        if not why:
            wanted, why = _take_in(document, wanted, fixed=fixed)
        if why:
            faults.append((row, why))
        else:
            objects[row] = document
    table = None
    if wanted.equals(schema):
        lines = {row: json.dumps(_pruned(document, pa.struct(list(schema)))) for row, document in objects.items()}
        table = _parse_lines(lines, schema)
        if table is None:
            for row in [row for row in lines if _parse_lines({row: lines[row]}, schema) is None]:
                del lines[row], objects[row]
                faults.append((row, "not JSON that can be a column: a number or an escape out of range"))
            table = _parse_lines(lines, schema)
        assert table is not None and (table.num_rows == len(lines) or not schema.names)
        table = _shaped(table, schema)
    good = np.zeros(len(values), dtype=np.bool_)
    good[list(objects)] = True
    return Block(table, good, sorted(faults), wanted)


def _pruned(value: Any, kind: pa.DataType) -> object:
    """What of a value has a place in its column: members that no value has given a type yet would confuse Arrow."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        types = {field.name: field.type for field in kind}
        return {name: _pruned(member, types[name]) for name, member in value.items() if name in types}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_pruned(item, kind.value_type) for item in value]
    return value


def _object(value: bytes | None) -> tuple[dict[str, object], str]:
    """The object that a value is (an empty one for none), or why it is not."""
    if value is None:
        return {}, ""
    try:
        document = json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as fault:
        return {}, f"not JSON: {fault}"
    return (document, "") if isinstance(document, dict) else ({}, f"a JSON {_kind(document)}, not an object")


def _parse_lines(documents: dict[int, str], schema: pa.Schema) -> pa.Table | None:
    if not documents:
        return _nulls(schema, 0)
    return _parse(pa.array([text.encode() for text in documents.values()], pa.binary()), schema)


def _shaped(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with just the schema's columns, and inside them just its members."""
    arrays = [_shape(table.column(field.name).combine_chunks(), field.type) for field in schema]
    return pa.table(arrays, schema=schema) if arrays else _nulls(schema, table.num_rows)


def _shape(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        names = {field.name for field in array.type}
        members = [
            _shape(array.field(field.name), field.type) if field.name in names else pa.nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        # A null list takes no values, so that the offsets alone do not tell it from an empty one: hence the mask.
        return pa.ListArray.from_arrays(array.offsets, _shape(array.values, kind.value_type), mask=array.is_null())
    return array.cast(kind)


def _take_in(document: dict[str, object], schema: pa.Schema, *, fixed: bool) -> tuple[pa.Schema, str]:
    """The schema with this document's fields, or why the document does not fit."""
    found = _type_of(document)
    assert pa.types.is_struct(found)
    for field in found:
        position = schema.get_field_index(field.name)
        if position < 0:
            if (usable := _usable(field.type)) is not None:
                schema = schema.append(pa.field(field.name, usable))
            continue
        merged = _merge_types(schema.field(position).type, field.type, fixed=fixed)
        if not _fits(field.type, merged):
            return schema, f"field {field.name}: {_text(field.type)} where the column holds {_text(merged)}"
        if merged != schema.field(position).type:
            schema = schema.set(position, pa.field(field.name, merged))
    return schema, ""


def _type_of(value: object) -> pa.DataType:
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -(1 << 63) <= value < 1 << 63 else pa.float64()
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, list):
        item: pa.DataType = pa.null()
        for element in value:
            item = _merge_types(item, _type_of(element), fixed=False)
        return pa.list_(item)
    assert isinstance(value, dict)
    return pa.struct([(name, _type_of(member)) for name, member in value.items()])


def _merge_types(one: pa.DataType, other: pa.DataType, *, fixed: bool) -> pa.DataType:
    if pa.types.is_null(one):
        return other
    if pa.types.is_integer(one) and pa.types.is_floating(other):
        return one if fixed else other
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_merge_types(one.value_type, other.value_type, fixed=fixed))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            before = fields.get(field.name, pa.null())
            fields[field.name] = _merge_types(before, field.type, fixed=fixed)
        usable = {name: kept for name, kind in fields.items() if (kept := _usable(kind)) is not None}
        return pa.struct(list(usable.items()))
    return one


def _fits(found: pa.DataType, column: pa.DataType) -> bool:
    if pa.types.is_null(found) or found == column:
        return True
    if pa.types.is_integer(found) and pa.types.is_floating(column):
        return True
    if pa.types.is_list(found) and pa.types.is_list(column):
        return _fits(found.value_type, column.value_type)
    if pa.types.is_struct(found) and pa.types.is_struct(column):
        return all(
            _fits(field.type, column.field(column.get_field_index(field.name)).type)
            for field in found
            if column.get_field_index(field.name) >= 0
        )
    return False


def _usable(kind: pa.DataType) -> pa.DataType | None:
    """The type as a column's: nothing where no value has shown one yet, text where Arrow guessed a time."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_temporal(kind):
        return pa.string()
    if pa.types.is_list(kind):
        item = _usable(kind.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_struct(kind):
        fields = [(field.name, kept) for field in kind if (kept := _usable(field.type)) is not None]
        return pa.struct(fields) if fields else None
    return kind


def _usable_schema(found: pa.Schema, given: pa.Schema) -> pa.Schema:
    """What Arrow found beyond the given columns, in the given order and then as found."""
    fields = {field.name: field.type for field in given}
    for field in found:
        kept = _usable(field.type)
        if kept is not None:
            fields[field.name] = kept
    return pa.schema(list(fields.items()))


def _nulls(schema: pa.Schema, rows: int) -> pa.Table:
    return pa.table([pa.nulls(rows, field.type) for field in schema], schema=schema)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _kind(value: object) -> str:
    return {list: "array", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")


def _text(kind: pa.DataType) -> str:
    return "object" if pa.types.is_struct(kind) else "array" if pa.types.is_list(kind) else str(kind)
