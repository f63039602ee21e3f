"""Small parts for building Arrow arrays from numpy and for looking into them, whatever slice they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, Any]


def valid(array: pa.Array) -> Mask:
    """True where there is a value."""
    if not array.null_count:
        return np.ones(len(array), dtype=np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def numbers(array: pa.Array, kind: type[Any]) -> Numbers:
    """The values of a fixed-width array without a copy; where there is a null, anything."""
    return np.frombuffer(array.buffers()[1] or b"", dtype=kind)[array.offset : array.offset + len(array)]


def from_numbers(kind: pa.DataType, content: Numbers, present: Mask | None = None) -> pa.Array:
    whole = np.ascontiguousarray(content)
    return pa.Array.from_buffers(kind, len(whole), [bitmap(present), pa.py_buffer(whole)])


def bitmap(present: Mask | None) -> pa.Buffer | None:
    if present is None or bool(present.all()):
        return None
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def offsets(array: pa.Array) -> Numbers:
    """A list's, map's, text's or binary's offsets, one more than there are values."""
    large = pa.types.is_large_list(array.type) or pa.types.is_large_string(array.type)
    wide = np.int64 if large or pa.types.is_large_binary(array.type) else np.int32
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:
        return np.zeros(1, dtype=np.int64)
    return np.frombuffer(buffer, dtype=wide)[array.offset : array.offset + len(array) + 1].astype(np.int64)


def items(array: pa.Array) -> pa.Array:
    """All items of a list, including items outside the array's slice: `offsets` counts from the first of all."""
    return array.values


def lists(kind: pa.DataType, edges: Numbers, values: pa.Array, present: Mask) -> pa.Array:
    """A list or map array of items in order; for a map, the items are structs of key and value."""
    wide = np.int64 if pa.types.is_large_list(kind) else np.int32
    buffers = [bitmap(present), pa.py_buffer(edges.astype(wide))]
    return pa.Array.from_buffers(kind, len(edges) - 1, buffers, children=[values])


def refilled(array: pa.Array, kind: pa.DataType, inside: Callable[[pa.Array, pa.Field, str], pa.Array]) -> pa.Array:
    """A list or a map as one of this type. `inside` makes its items, or its keys and values, given the field of the
    type that they become, and "[]" for items and values, ".key" for keys. It sees those of this slice alone.
    """
    edges = offsets(array)
    held = items(array).slice(edges[0], edges[-1] - edges[0])
    if pa.types.is_map(kind):
        steps = ((0, kind.key_field, ".key"), (1, kind.item_field, "[]"))
        parts = [inside(held.field(at), field, step) for at, field, step in steps]
        made = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
    else:
        made = inside(held, kind.value_field, "[]")
    return lists(kind, edges - edges[0], made, valid(array))


def leaves(array: pa.Array | pa.ChunkedArray, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], pa.Array]]:
    """The arrays without parts inside an array, each with its path, in which `[]` stands for items and values of maps.

    Keys of maps are left out, and so is all inside a struct or a list that is null. Each chunk has its own arrays.
    """
    if isinstance(array, pa.ChunkedArray):
        for chunk in array.chunks:
            yield from leaves(chunk, path)
    elif pa.types.is_struct(array.type):
        for field, part in zip(array.type, array.flatten(), strict=True):
            yield from leaves(part, (*path, field.name))
    elif pa.types.is_list(array.type):
        yield from leaves(array.flatten(), (*path, "[]"))
    elif pa.types.is_map(array.type):
        entries = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
        yield from leaves(entries.flatten().field(1), (*path, "[]"))
    else:
        yield path, array


def whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, in whatever pieces it came."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    if array.num_chunks == 1:
        return array.chunk(0)
    return pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
