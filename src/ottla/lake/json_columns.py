"""JSON values as columns: whole blocks at a time by Arrow's own parser, row by row only around a value with a fault.

Fields that the schema does not know yet, and types that it is too narrow for, are reported, so that the schema can be
widened before anything of the round is visible. types.py says what widens to what.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from ottla.formats.renames import Renames
from ottla.lake.json_renames import under_new_names, with_old_names
from ottla.lake.types import (
    EMPTY,
    MOST_LEVELS,
    Misfit,
    Rule,
    check_levels,
    check_limits,
    merge,
    merge_schemas,
    usable,
    usable_schema,
)
from ottla.spark.arrow import numbers

RESERVED = frozenset({"key", "value", "headers", "partition", "offset", "timestamp", "topic", "date", "month", "hour"})
"""Names that the record itself and the folders of the lake use; a field of that name gets `value_` before it."""

MOST_BYTES = 32 << 20
"""A value larger than this is refused."""
SMALL_BLOCK = 32
"""Rows that are read one by one where they cannot be read together."""
FEW = 2
"""Where fewer rows of a small block lie before a fault, many have one: reading them together is not tried again."""
SUSPICIOUS_BRACKETS = 200
"""A value with more opening brackets has its depth counted exactly: our own walk ends at about 400 levels."""

Mask = np.ndarray[Any, np.dtype[np.bool_]]
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_ROW = re.compile(r" in row (\d+)$")
"""The end of the parser's message; a value that is two objects makes it one too high, and another way is taken."""
_SCALARS = {type(None): pa.null(), bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_INT64 = range(-(1 << 63), 1 << 63)


class _Stumble(Exception):
    """Arrow's parser does not take these values together; `row` is where it stopped, as far as it says so."""

    def __init__(self, row: int | None = None) -> None:
        super().__init__(row)
        self.row = row


@dataclass(slots=True)
class Block:
    """The columns of the rows that could be read, which rows those are, and why others could not.

    `wanted` is the schema that all rows need; where it is not the one given, `table` is None.
    """

    table: pa.Table | None
    good: Mask
    faults: list[tuple[int, str]]
    wanted: pa.Schema
    misfits: bool = False
    """Whether a value was refused for its type: another order of values could have refused another one."""


def pack_schema(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")


def unpack_schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def column_names(names: Sequence[str]) -> list[str]:
    """The columns' names in the lake: a reserved name, and what would collide with its substitute, is prefixed."""
    taken: set[str] = set(RESERVED)
    renamed = {}
    for name in sorted(names, key=lambda name: (name.casefold() in RESERVED, name)):
        own = name
        while own.casefold() in taken:
            own = f"value_{own}"
        taken.add(own.casefold())
        renamed[name] = own
    return [renamed[name] for name in names]


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """Rules by which the fields of objects become columns."""

    rule: Rule = field(default_factory=Rule)
    kept: Callable[[pa.Schema], pa.Schema] = lambda found: found
    """Leaves fields out."""
    check: Callable[[pa.Schema], None] = check_limits
    """Raises Misfit for columns that make no table."""
    renames: Renames = field(default_factory=Renames)


def decode(values: pa.Array, schema: pa.Schema, rules: ColumnRules | None = None) -> Block:
    """Read one JSON object per value, in order; null values are rows of nulls."""
    reading = _Reading(schema, rules or ColumnRules())
    reading.take(values, 0)
    good = np.ones(len(values), dtype=np.bool_)
    good[[row for row, _ in reading.faults]] = False
    table = None
    if reading.wanted.equals(schema):
        whole = schema.names and reading.tables
        table = pa.concat_tables(reading.tables) if whole else _nulls(schema, int(good.sum()))
    wanted = schema if table is not None else reading.wanted
    return Block(table, good, sorted(reading.faults), wanted, reading.misfits)


@dataclass(slots=True)
class _Reading:
    """One block on its way: together what lies between faults, single rows where Arrow does not take them."""

    schema: pa.Schema
    rules: ColumnRules
    tables: list[pa.Table] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)
    misfits: bool = False
    wanted: pa.Schema = EMPTY

    def __post_init__(self) -> None:
        self.wanted = self.schema

    def take(self, values: pa.Array, first: int) -> None:
        """The rows from `first` on that these values are."""
        at, most = 0, len(values)
        while at < len(values):
            part = values.slice(at, most)
            try:
                self._together(part)
            except _Stumble as stumble:
                row = stumble.row
                if row is None or row >= len(part) or (row < FEW and len(part) <= 2 * SMALL_BLOCK):
                    self._take_apart(part, first + at)
                else:
                    self.take(part.slice(0, row), first + at)
                    self._one_by_one(part.slice(row, 1), first + at + row)
                    part = part.slice(0, row + 1)
                    most = max(SMALL_BLOCK, row)
            at += len(part)
            most *= 2

    def _take_apart(self, values: pa.Array, first: int) -> None:
        """Rows of which some cannot be read, nobody knows which."""
        middle = len(values) // 2
        if len(values) <= SMALL_BLOCK:
            self._one_by_one(values, first)
        else:
            self.take(values.slice(0, middle), first)
            self.take(values.slice(middle), first + middle)

    def _together(self, rows: pa.Array) -> None:
        """Have Arrow's parser read all rows; _Stumble where it does not, or something of it is in doubt."""
        values = rows.drop_null()
        if not len(values):
            self.tables.append(_nulls(self.schema, len(rows)))
            return
        try:
            table, wanted = self._parsed(values)
        except _Stumble as stumble:
            if stumble.row is None or len(values) == len(rows) or stumble.row >= len(values):
                raise
            raise _Stumble(int(np.flatnonzero(np.asarray(rows.is_valid()))[stumble.row])) from None
        if table is not None:
            self.tables.append(table if not rows.null_count else _with_nulls(table, rows))
        self.wanted = wanted

    def _parsed(self, values: pa.Array) -> tuple[pa.Table | None, pa.Schema]:
        """The values as a table, and the columns that all need so far; None for a table that lacks some of them."""
        _check_one_shallow_object_each(values)
        parsed = _renamed(values, self.wanted, self.rules.renames)
        if parsed.num_rows != len(values) or not _numbers_are_exact(parsed):
            raise _Stumble
        try:
            check_levels(parsed.schema)  # also where what lies deep shows no type, and so makes no column
            wanted = merge_schemas(self.wanted, self.rules.kept(usable_schema(parsed.schema)), self.rules.rule)
            self.rules.check(wanted)
        except Misfit:
            raise _Stumble from None
        return (_shaped(parsed, self.schema) if wanted.equals(self.schema) else None), wanted

    def _one_by_one(self, values: pa.Array, first: int) -> None:
        lines = []
        for row, value in enumerate(values.to_pylist()):
            try:
                document = {} if value is None else self.rules.renames.document(_object(value))
                found = self.rules.kept(usable_schema(_type_of(document, self.rules.rule)))
                wanted = merge_schemas(self.wanted, found, self.rules.rule)
                if wanted is not self.wanted and not wanted.equals(self.wanted):
                    self.rules.check(wanted)
            except Misfit as fault:
                self.misfits = True
                self.faults.append((first + row, str(fault)))
            except ValueError as fault:
                self.faults.append((first + row, str(fault)))
            else:
                self.wanted = wanted
                lines.append((row, document))
        if self.wanted.equals(self.schema):
            self.tables.append(self._table(lines, first))

    def _table(self, lines: list[tuple[int, dict[str, object]]], first: int) -> pa.Table:
        """The documents as columns. Arrow reads their text again, so that both ways give the same values."""
        whole = pa.struct(list(self.schema))
        texts = [(row, json.dumps(_placed(document, whole)).encode()) for row, document in lines]
        kept = [text for _, text in texts]
        try:
            table = _parse_lines(kept, self.schema)
        except _Stumble:
            kept = []
            for row, text in texts:
                try:
                    _parse_lines([text], self.schema)
                except _Stumble:
                    self.faults.append((first + row, "not JSON that can be a column: an escape out of range"))
                else:
                    kept.append(text)
            table = _parse_lines(kept, self.schema)
        return _shaped(table, self.schema)


def _with_nulls(table: pa.Table, rows: pa.Array) -> pa.Table:
    """The table of the values that are there as one of all rows: a row of nulls for each that has no value."""
    there = np.asarray(rows.is_valid())
    return table.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _check_one_shallow_object_each(values: pa.Array) -> None:
    """UTF-8, every value from { to } and none deep: no object can reach over a separating newline."""
    if not _is_utf8(values):
        raise _Stumble(next(row for row, value in enumerate(values) if not _is_utf8(pa.array([value.as_py()]))))
    _, offsets_buffer, data_buffer = values.buffers()
    if data_buffer is None:
        raise _Stumble(0)
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    text = np.frombuffer(data_buffer, dtype=np.uint8)
    sizes = offsets[1:] - offsets[:-1]
    _check_all((sizes > 0) & (sizes <= MOST_BYTES))
    _check_all((text[offsets[:-1]] == ord("{")) & (text[offsets[1:] - 1] == ord("}")))
    inside = text[offsets[0] : offsets[-1]]
    opening = np.flatnonzero((inside == ord("{")) | (inside == ord("["))) + offsets[0]
    each = np.searchsorted(opening, offsets[1:]) - np.searchsorted(opening, offsets[:-1])
    for row in np.flatnonzero(each > SUSPICIOUS_BRACKETS).tolist():
        if depth(bytes(text[offsets[row] : offsets[row + 1]])) > MOST_LEVELS:
            raise _Stumble(row)


def _check_all(right: Mask) -> None:
    if not right.all():
        raise _Stumble(int(right.argmin()))


def depth(value: bytes) -> int:
    """The largest number of brackets that are open at once, those in strings not counted."""
    plain = np.frombuffer(_STRING.sub(b"", value), dtype=np.uint8)
    opened = ((plain == ord("{")) | (plain == ord("["))).astype(np.int64)
    closed = ((plain == ord("}")) | (plain == ord("]"))).astype(np.int64)
    return int(np.cumsum(opened - closed).max(initial=0))


def _is_utf8(values: pa.Array) -> bool:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _numbers_are_exact(table: pa.Table) -> bool:
    """No double that Arrow made of NaN, of an infinity, or of a whole number beyond 64 bits."""
    return all(_exact(column) for column in table.columns)


def _exact(array: pa.Array | pa.ChunkedArray) -> bool:
    if isinstance(array, pa.ChunkedArray):
        return all(_exact(chunk) for chunk in array.chunks)
    if pa.types.is_floating(array.type):
        return bool((np.abs(numbers(array.drop_null(), np.float64)) < 2.0**63).all())
    if pa.types.is_struct(array.type):
        return all(_exact(array.field(position)) for position in range(array.type.num_fields))
    return _exact(array.values) if pa.types.is_list(array.type) else True


def _parse(values: pa.Array, schema: pa.Schema) -> pa.Table:
    """All values by one call of Arrow's parser."""
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
    except pa.ArrowInvalid as fault:
        row = _ROW.search(str(fault))
        raise _Stumble(None if row is None else int(row[1])) from None


def _renamed(values: pa.Array, schema: pa.Schema, renames: Renames) -> pa.Table:
    """All values by one call of Arrow's parser, under new names; _Stumble also where a name is not clear."""
    if not renames:
        return _parse(values, schema)
    parsed = _parse(values, pa.schema(list(with_old_names(pa.struct(list(schema)), renames))))
    if not parsed.column_names:
        return parsed
    whole = under_new_names(parsed.to_struct_array(), renames)
    if whole is None:
        raise _Stumble
    return pa.Table.from_arrays(whole.flatten(), schema=pa.schema(list(whole.type)))


def _parse_lines(texts: list[bytes], schema: pa.Schema) -> pa.Table:
    if not texts or not schema.names:
        return _nulls(schema, len(texts))
    return _parse(pa.array(texts, pa.binary()), schema)


def _object(value: bytes) -> dict[str, object]:
    """The object that a value is; ValueError says why it is none that can be columns."""
    if len(value) > MOST_BYTES:
        raise ValueError(f"a value of {len(value):,} bytes; at most {MOST_BYTES:,} can be columns")
    if depth(value) > MOST_LEVELS:
        raise ValueError(f"nested deeper than {MOST_LEVELS} levels")
    try:
        document = json.loads(value, parse_constant=_refuse_constant, parse_int=_whole, parse_float=_real)
    except ValueError as fault:
        raise ValueError(str(fault) if isinstance(fault, _Refused) else f"not JSON: {fault}") from None
    if not isinstance(document, dict):
        raise ValueError(f"a JSON {_kind(document)}, not an object")
    return document


class _Refused(ValueError):
    """Well-formed, or nearly, but no value of a column."""


def _refuse_constant(name: str) -> object:
    raise _Refused(f"not JSON: {name} is no number")


def _whole(text: str) -> int:
    if len(text) > 20 or (number := int(text)) not in _INT64:
        raise _Refused(f"a number too big: {text[:40]} has more than 64 bits")
    return number


def _real(text: str) -> float:
    if math.isinf(number := float(text)):
        raise _Refused(f"a number too big: {text[:40]} is beyond a double")
    return number


def _placed(value: Any, kind: pa.DataType) -> object:
    """The part of a value that its column can hold; numbers as text where the column holds text."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        types = {each.name: each.type for each in kind}
        return {name: _placed(member, types[name]) for name, member in value.items() if name in types}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_placed(item, kind.value_type) for item in value]
    if isinstance(value, dict | list):
        return None  # one that shows no type, e.g. empty: it fits every column, and says nothing there
    if isinstance(value, int) and not isinstance(value, bool) and pa.types.is_string(kind):
        return str(value)
    return value


def _type_of(value: object, rule: Rule) -> pa.DataType:
    """A value's type; Misfit where members of an array, or two spellings of a name, do not go together."""
    if isinstance(value, dict):
        members: dict[str, pa.DataType] = {}
        spelled: dict[str, str] = {}
        for name, member in value.items():
            kind = usable(_type_of(member, rule))
            if kind is None:  # what shows no type makes no column, and so collides with none
                continue
            if (known := spelled.setdefault(name.casefold(), name)) != name:
                raise Misfit(f"field {name}: its name differs from {known} only in case")
            members[name] = merge(pa.null(), kind, rule, name)
        return pa.struct(list(members.items()))
    if isinstance(value, list):
        item = pa.null()
        for element in value:
            item = merge(item, _type_of(element, rule), rule, "[]")
        return pa.list_(item)
    return _SCALARS[type(value)]


def _shaped(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with just the schema's columns, and inside them just its members."""
    arrays = [_shape(table.column(each.name), each.type) for each in schema]
    return pa.table(arrays, schema=schema) if arrays else _nulls(schema, table.num_rows)


def _shape(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        # One block is one chunk. Arrow cannot put chunks together where a list of nothing but nulls lies inside.
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        names = {each.name for each in array.type}
        members = [
            _shape(array.field(each.name), each.type) if each.name in names else pa.nulls(len(array), each.type)
            for each in kind
        ]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        # A null list takes no values, so that the offsets alone do not tell it from an empty one: hence the mask.
        return pa.ListArray.from_arrays(array.offsets, _shape(array.values, kind.value_type), mask=array.is_null())
    return array.cast(kind)


def _nulls(schema: pa.Schema, rows: int) -> pa.Table:
    if schema.names:
        return pa.table([pa.nulls(rows, each.type) for each in schema], schema=schema)
    return no_columns(rows)


def no_columns(rows: int) -> pa.Table:
    """A table of rows alone."""
    return pa.table({"": pa.nulls(rows)}).select([])


def _kind(value: object) -> str:
    return {list: "array", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")
