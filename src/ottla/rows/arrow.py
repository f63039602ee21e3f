"""Arrow around plain buffers, without a copy: decoded columns as record batches, record batches as columns to encode.

The types are exactly those that Spark maps its own to; any other (large_binary, milliseconds) it refuses.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.formats.columns import with_plain_leaves
from ottla.kernel.seams import Buffer
from ottla.records.columns import BinaryColumn, HeaderColumn, RecordColumns

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
}


def row_schema(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([pa.field(name, TYPES[name]) for name in names])


def record_batch(columns: RecordColumns, topic: str, partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """Decoded columns (timestamps in microseconds) as rows of Spark's schema, or of some of its columns."""
    return pa.RecordBatch.from_arrays([_array(columns, name, topic, partition) for name in schema.names], schema=schema)


def _array(columns: RecordColumns, name: str, topic: str, partition: int) -> pa.Array:
    rows, kind = columns.rows, TYPES[name]
    match name:
        case "key":
            return _binary(columns.key, rows, kind)
        case "value":
            return _binary(columns.value, rows, kind)
        case "topic":
            return repeated(topic.encode(), rows)
        case "partition":
            return _numbers(np.full(rows, partition, dtype=np.int32), rows, kind)
        case "offset":
            return _numbers(columns.offset, rows, kind)
        case "timestamp":
            return _numbers(columns.timestamp, rows, kind)
        case "timestampType":
            return _numbers(columns.timestamp_type, rows, kind)
    assert name == "headers"
    return _headers(columns.headers, rows)


def _binary(column: BinaryColumn, rows: int, kind: pa.DataType) -> pa.Array:
    buffers = [_buffer(column.validity), pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def repeated(text: bytes, rows: int) -> pa.Array:
    """One text for all rows. Built by hand, since `pa.scalar` imports pandas: most of a second in a new worker."""
    offsets = np.arange(rows + 1, dtype=np.int32) * len(text)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(text * rows)], 0)


def binary_scalar(content: bytes) -> pa.Scalar:
    """One value; not by `pa.scalar`, which imports pandas."""
    offsets = np.array([0, len(content)], dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(content)])[0]


def _numbers(buffer: Buffer | np.ndarray[Any, Any], rows: int, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(buffer)], 0)


def _headers(column: HeaderColumn | None, rows: int) -> pa.Array:
    """The headers column; rows without headers are null, as Spark's connector gives them."""
    if column is None:
        return pa.nulls(rows, HEADERS)
    names = _binary(column.names, column.entries, pa.string())
    contents = _binary(column.contents, column.entries, pa.binary())
    entries = pa.StructArray.from_arrays([names, contents], fields=list(HEADER))
    validity = _buffer(column.validity) if column.null_count else None
    buffers = [validity, pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(HEADERS, rows, buffers, column.null_count, children=[entries])


def _buffer(content: Buffer | None) -> pa.Buffer | None:
    return None if content is None else pa.py_buffer(content)


def numbers(array: pa.Array, kind: Any = np.int64) -> np.ndarray[Any, Any]:
    """The numbers of an array without nulls, without a copy (and without pandas); `kind` is numpy's type of them."""
    return np.frombuffer(array.buffers()[1], dtype=kind)[array.offset : array.offset + len(array)]


def all_numbers(column: pa.ChunkedArray, kind: Any = np.int64) -> np.ndarray[Any, Any]:
    """The numbers of a column without nulls."""
    chunks = [numbers(chunk, kind) for chunk in column.chunks if len(chunk)]
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate(chunks) if chunks else np.empty(0, dtype=kind)


def null_mask(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A mask of the rows of an array that are null (without pandas)."""
    if not array.null_count:
        return np.zeros(len(array), dtype=np.bool_)
    if pa.types.is_null(array.type):
        return np.ones(len(array), dtype=np.bool_)
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], dtype=np.uint8), bitorder="little")
    absent: np.ndarray[Any, np.dtype[np.bool_]] = bits[array.offset : array.offset + len(array)] == 0
    return absent


def beyond_time(times: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A mask of the record times that microseconds cannot hold: the decoder gives the ends of int64 for them."""
    found = numbers(times)
    ends = np.iinfo(np.int64)
    beyond: np.ndarray[Any, np.dtype[np.bool_]] = (found == ends.max) | (found == ends.min)
    return beyond


def without(array: pa.Array, absent: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    """An array of numbers without nulls, with nulls in these rows."""
    validity = np.packbits(~absent, bitorder="little")
    whole = np.ascontiguousarray(numbers(array))
    buffers = [pa.py_buffer(validity), pa.py_buffer(whole)]
    return pa.Array.from_buffers(array.type, len(array), buffers, int(absent.sum()))


def indices(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    """Row numbers for `take`; not by `pa.array`, which imports pandas too."""
    whole = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)], 0)


def with_plain_types(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """The batch with 32-bit offsets in these columns: `spark.sql.execution.arrow.useLargeVarTypes` makes others."""
    for place, field in enumerate(batch.schema):
        if field.name in names and (kind := with_plain_leaves(field.type)) != field.type:
            batch = batch.set_column(place, field.with_type(kind), batch.column(place).cast(kind))
    return batch


def binary_column(array: pa.Array) -> BinaryColumn:
    """A binary or string array's buffers; indexes count from `array.offset`."""
    assert pa.types.is_binary(array.type) or pa.types.is_string(array.type), array.type
    validity, offsets, content = array.buffers()
    return BinaryColumn(validity if array.null_count else None, offsets, content or b"", array.null_count)


def header_column(array: pa.Array) -> HeaderColumn:
    """A headers array's buffers; indexes count from `array.offset`, inside it from zero."""
    validity, offsets = array.buffers()[:2]
    entries = array.values
    if entries.null_count:
        raise ValueError("null element in the headers of a row: a header is a struct of key and value")
    names, contents = entries.field(0), entries.field(1)
    if names.null_count:
        raise ValueError("Null header keys are not permitted")
    if entries.offset:
        names, contents = pa.concat_arrays([names]), pa.concat_arrays([contents])
    nulls = array.null_count
    return HeaderColumn(
        validity if nulls else b"", nulls, offsets, len(entries), binary_column(names), binary_column(contents)
    )


def header_values(headers: pa.Array, name: str) -> pa.Array:
    """The value of each row's last header of a name; null where the row has none."""
    if headers.null_count == len(headers):
        return pa.nulls(len(headers), pa.binary())
    entries = headers.flatten()
    chosen = np.flatnonzero(_same_text(entries.field(0), name))
    places = np.full(len(headers), -1, dtype=np.int64)
    rows = np.asarray(pc.list_parent_indices(headers).take(indices(chosen)), dtype=np.int64)
    places[rows] = chosen  # of several headers of one name in a row the last one is written last
    return entries.field(1).take(pa.array(places, mask=places < 0))


def _same_text(names: pa.Array, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(pc.fill_null(pc.equal(names, name), False).to_numpy(zero_copy_only=False), dtype=np.bool_)
