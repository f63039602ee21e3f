"""Parses the JSON objects of a block by one call of Arrow's parser, and only where the result is certain.

A value that reaches over the end of its line, or a number that Arrow would round, makes it fail; so does a value that
is no JSON. json_rows.py reads such a value by itself.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from ottla.formats.arrays import leaves
from ottla.formats.json_numbers import may_lose_digits
from ottla.formats.renames import Renames
from ottla.lake.columns.json_renames import under_new_names, with_old_names
from ottla.lake.columns.types import MOST_LEVELS
from ottla.rows.arrow import binary_scalar, numbers

MOST_BYTES = 32 << 20
"""A value larger than this is refused."""
SUSPICIOUS_BRACKETS = 200
"""A value with more opening brackets has its depth counted exactly: our own walk ends at about 400 levels."""

Mask = np.ndarray[Any, np.dtype[np.bool_]]
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_NOTHING, _NEWLINE = binary_scalar(b""), binary_scalar(b"\n")
_ROW = re.compile(r" in row (\d+)$")
"""The end of the parser's message; a value that is two objects makes it one too high, and another way is taken."""


class Stumble(Exception):
    """Arrow's parser does not take these values together; `row` is where it stopped, as far as it says so."""

    def __init__(self, row: int | None = None) -> None:
        super().__init__(row)
        self.row = row


def parse_objects(values: pa.Array, schema: pa.Schema, renames: Renames) -> pa.Table:
    """One JSON object per value as columns, with the schema's types for those it knows; Stumble where that fails."""
    _check_one_shallow_object_each(values)
    parsed = _renamed(values, schema, renames)
    if parsed.num_rows != len(values) or not _numbers_are_exact(parsed):
        raise Stumble
    if any(may_lose_digits(column, _text(values)) for column in parsed.columns):
        raise Stumble
    return parsed


def _text(values: pa.Array) -> memoryview:
    """The bytes of all values, one after the other."""
    _, offsets, text = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    return memoryview(text)[ends[0] : ends[-1]]


def parse_texts(texts: list[bytes], schema: pa.Schema) -> pa.Table:
    """Objects that are known to be well formed; Stumble where a text in them cannot be a column's."""
    return _parse(pa.array(texts, pa.binary()), schema)


def _check_one_shallow_object_each(values: pa.Array) -> None:
    """UTF-8, every value from { to } and none deep: no object can reach over a separating newline."""
    if not _is_utf8(values):
        raise Stumble(next(row for row, value in enumerate(values) if not _is_utf8(pa.array([value.as_py()]))))
    _, offsets_buffer, data_buffer = values.buffers()
    if data_buffer is None:
        raise Stumble(0)
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
            raise Stumble(row)


def _check_all(right: Mask) -> None:
    if not right.all():
        raise Stumble(int(right.argmin()))


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
    found = (leaf for column in table.columns for _, leaf in leaves(column) if pa.types.is_floating(leaf.type))
    return all(bool((np.abs(numbers(leaf.drop_null(), np.float64)) < 2.0**63).all()) for leaf in found)


def _parse(values: pa.Array, schema: pa.Schema) -> pa.Table:
    """All values by one call of Arrow's parser."""
    lines = pc.binary_join_element_wise(values, _NOTHING, _NEWLINE)
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
        raise Stumble(None if row is None else int(row[1])) from None


def _renamed(values: pa.Array, schema: pa.Schema, renames: Renames) -> pa.Table:
    """All values by one call of Arrow's parser, under new names; Stumble also where a name is not clear."""
    if not renames:
        return _parse(values, schema)
    parsed = _parse(values, pa.schema(list(with_old_names(pa.struct(list(schema)), renames))))
    if not parsed.column_names:
        return parsed
    whole = under_new_names(parsed.to_struct_array(), renames)
    if whole is None:
        raise Stumble
    return pa.Table.from_arrays(whole.flatten(), schema=pa.schema(list(whole.type)))
