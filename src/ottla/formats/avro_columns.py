"""Plain arrays (avro_types.py) made into columns: timestamps, decimals, enums, maps, unions as what they mean.

A value out of its range raises `BadPayload` for the whole array; the caller finds out which row it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ottla.formats.arrays import Mask, Numbers, from_numbers, items, lists, numbers, offsets, valid, whole
from ottla.formats.avro_schema import ArraySchema, Enum, FixedSchema, Map, Node, Primitive, RecordSchema, Union
from ottla.formats.avro_types import DURATION, arrow_type, members, only_branch, place
from ottla.formats.faults import BadPayload

DAY_MICROS = 86_400_000_000
_MOST_MILLIS = (1 << 63) // 1000


def finished(node: Node, plain: pa.Array) -> pa.Array:
    """The column of plain values, polars' wide offsets narrowed to Arrow's common ones."""
    kind = arrow_type(node)
    assert kind is not None, "the caller leaves out what has no column"
    plain = whole(plain)
    match node:
        case Primitive() | FixedSchema():
            return _scalar(node, plain, kind)
        case Enum():
            return _symbols(node, plain)
        case RecordSchema():
            parts = [
                finished(field.node, _child(plain, place(at)))
                for at, field in enumerate(node.fields)
                if arrow_type(field.node) is not None
            ]
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=plain.is_null())
        case ArraySchema():
            return lists(kind, offsets(plain), finished(node.items, items(plain)), valid(plain))
        case Map():
            return _map(node, plain, kind)
        case Union():
            if (other := only_branch(node)) is not None:
                return finished(other, plain)
            parts = [finished(node.branches[at], _child(plain, place(at))) for _, _, at in members(node)]
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=plain.is_null())


def _child(plain: pa.Array, name: str) -> pa.Array:
    """A member; null where the record is, since polars puts an empty value there, which may be out of its range."""
    if not plain.null_count:
        return plain.field(name)
    return plain.flatten()[plain.type.get_field_index(name)]


def _scalar(node: Primitive | FixedSchema, plain: pa.Array, kind: pa.DataType) -> pa.Array:
    match node.logical:
        case "decimal":
            return _decimal(plain, kind, 16 if node.precision <= 38 else 32)
        case "date":
            return from_numbers(kind, numbers(plain, np.int32), valid(plain))
        case "time-millis" | "time-micros":
            return _time(plain, kind, 1000 if node.logical == "time-millis" else 1)
        case "uuid" if isinstance(node, FixedSchema):
            return _uuid(plain)
        case "duration":
            return _duration(plain)
    if "timestamp" in node.logical:
        count = numbers(plain, np.int64)
        if node.logical.endswith("millis"):
            present = valid(plain)
            if bool(np.any(present & ((count >= _MOST_MILLIS) | (count <= -_MOST_MILLIS)))):
                raise BadPayload(f"a {node.logical} is beyond what 64 bits of microseconds hold")
            count = np.where(present, count, 0) * 1000
        return from_numbers(kind, count, valid(plain))
    return plain if plain.type == kind else plain.cast(kind)


def _time(plain: pa.Array, kind: pa.DataType, factor: int) -> pa.Array:
    present = valid(plain)
    count = numbers(plain, np.int32 if factor > 1 else np.int64).astype(np.int64)
    micros = np.where(present, count, 0) * factor
    if bool(np.any((micros < 0) | (micros >= DAY_MICROS) | (present & (count >= DAY_MICROS)))):
        raise BadPayload("a time of day is before midnight or after it")
    return from_numbers(kind, micros, present)


def _symbols(node: Enum, plain: pa.Array) -> pa.Array:
    index = numbers(plain, np.int32)
    if bool(np.any(valid(plain) & ((index < 0) | (index >= len(node.symbols))))):
        raise BadPayload(f"an index beyond the {len(node.symbols)} symbols of the enum {node.name}")
    return pa.array(node.symbols, pa.string()).take(plain)


def _decimal(plain: pa.Array, kind: pa.DataType, width: int) -> pa.Array:
    """Two's complement of any length, highest byte first, as Arrow's of one width, lowest byte first."""
    present = valid(plain)
    plain = plain.cast(pa.binary())
    edges = offsets(plain)
    ends, lengths = edges[1:], np.where(present, edges[1:] - edges[:-1], 1)
    if bool(np.any(lengths == 0)):
        raise BadPayload("a decimal of no bytes")
    content = np.frombuffer(plain.buffers()[2] or b"\0", dtype=np.uint8)
    if not len(content):
        content = np.zeros(1, dtype=np.uint8)
    last = len(content) - 1
    sign = np.where(content[np.clip(ends - lengths, 0, last)] >= 128, 255, 0).astype(np.uint8)
    result = np.empty((len(plain), width), dtype=np.uint8)
    for at in range(width):
        result[:, at] = np.where(at < lengths, content[np.clip(ends - 1 - at, 0, last)], sign)
    for at in range(width, int(lengths.max(initial=0))):
        if bool(np.any(present & (at < lengths) & (content[np.clip(ends - 1 - at, 0, last)] != sign))):
            raise BadPayload(f"a decimal of more than {8 * width} bits")
    if bool(np.any(present & ((result[:, width - 1] >= 128) != (sign == 255)))):
        raise BadPayload(f"a decimal of more than {8 * width} bits")
    result[~present] = 0
    found = pa.Array.from_buffers(kind, len(plain), [_bits(present), pa.py_buffer(result)])
    try:
        found.validate(full=True)
    except pa.ArrowInvalid:
        raise BadPayload(f"a decimal of more than {kind.precision} digits") from None
    return found


def _bits(present: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def _fixed_rows(plain: pa.Array, size: int) -> tuple[Numbers, Mask]:
    """A fixed's bytes as a matrix, a row per value; zeros where there is none."""
    present = valid(plain)
    edges = offsets(plain.cast(pa.binary()))[:-1]
    content = np.frombuffer(plain.cast(pa.binary()).buffers()[2] or b"", dtype=np.uint8)
    matrix = np.zeros((len(plain), size), dtype=np.uint8)
    matrix[present] = content[edges[present][:, None] + np.arange(size)]
    return matrix, present


def _uuid(plain: pa.Array) -> pa.Array:
    matrix, present = _fixed_rows(plain, 16)
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    text = np.full((len(matrix), 36), ord("-"), dtype=np.uint8)
    nibbles = np.stack([digits[matrix >> 4], digits[matrix & 15]], axis=2).reshape(len(matrix), 32)
    text[:, [at for at in range(36) if at not in (8, 13, 18, 23)]] = nibbles
    edges = np.arange(len(matrix) + 1, dtype=np.int32) * 36
    return pa.Array.from_buffers(pa.string(), len(matrix), [_bits(present), pa.py_buffer(edges), pa.py_buffer(text)])


def _duration(plain: pa.Array) -> pa.Array:
    matrix, present = _fixed_rows(plain, 12)
    parts: Any = np.ascontiguousarray(matrix).view("<u4").astype(np.int64)
    columns = [from_numbers(pa.int64(), parts[:, at]) for at in range(3)]
    return pa.StructArray.from_arrays(columns, fields=list(DURATION), mask=pa.array(~present))


def _map(node: Map, plain: pa.Array, kind: pa.DataType) -> pa.Array:
    entries = items(plain)
    keys = entries.field("k").cast(pa.string())
    _refuse_repeated(keys, offsets(plain))
    wanted = arrow_type(node.values)
    values = pa.nulls(len(keys)) if wanted is None else finished(node.values, entries.field("v"))
    fields = [kind.key_field, kind.item_field]
    return lists(kind, offsets(plain), pa.StructArray.from_arrays([keys, values], fields=fields), valid(plain))


def _refuse_repeated(keys: pa.Array, edges: Numbers) -> None:
    """Leave a map with a key twice to the row reader, which keeps the last, as Avro's libraries do."""
    if len(keys) < 2:
        return
    encoded = keys.dictionary_encode()
    codes = numbers(encoded.indices, np.int32).astype(np.int64)
    rows = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    inside = codes[int(edges[0]) : int(edges[-1])] + rows * len(encoded.dictionary)
    if len(np.unique(inside)) < len(inside):
        raise BadPayload("a map has one key twice")
