"""A digest of the rows of a batch that does not depend on their order: the sum of each row's hash, computed at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.rows.arrow import null_mask, numbers
from ottla.spark.marker import Content
from ottla.spark.partitions import murmur2

Hashes = np.ndarray[Any, np.dtype[np.uint64]]
COLUMNS = ("topic", "partition", "key", "value", "headers")
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NULL = np.uint64(0x1F0D3804_5A17C3B9)


def content_of(batch: pa.RecordBatch, columns: Collection[str] = COLUMNS) -> Content:
    """The content of those of these columns that exist."""
    if not batch.num_rows:
        return Content()
    rows: Hashes = np.zeros(batch.num_rows, dtype=np.uint64)
    for name in columns:
        if name in batch.schema.names:
            rows = _mixed(rows, _hashes(batch.column(name)))
    return Content(batch.num_rows, int(rows.sum(dtype=np.uint64)))


def _hashes(column: pa.Array) -> Hashes:
    """A hash of each value; a null has one of its own."""
    if not len(column):
        return np.zeros(0, dtype=np.uint64)
    if pa.types.is_list(column.type):
        hashes = _list_hashes(column)
    elif pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
        hashes = numbers(column.cast(pa.int64())).astype(np.uint64)
    else:
        _, offsets, _ = column.buffers()
        edges = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
        hashes = murmur2(column).astype(np.uint64) | np.diff(edges).astype(np.uint64) << np.uint64(32)
    if column.null_count:
        hashes[null_mask(column)] = _NULL
    return hashes


def _list_hashes(column: pa.ListArray) -> Hashes:
    """The sum over a row's headers of their hashes, each with its place in the row."""
    offsets = numbers(column.offsets, np.int32).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    headers = column.values.slice(first, last - first)
    places = np.arange(last - first) - np.repeat(offsets[:-1] - first, np.diff(offsets))
    each = _mixed(places.astype(np.uint64), _hashes(headers.field(0)))
    each = _mixed(each, _hashes(headers.field(1)))
    sums: Hashes = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(each, dtype=np.uint64)])
    found: Hashes = sums[offsets[1:] - first] - sums[offsets[:-1] - first]
    return found


def _mixed(state: Hashes, hashes: Hashes) -> Hashes:
    """Mix two hashes into one, by the steps of SplitMix64."""
    with np.errstate(over="ignore"):
        value = state * _STEP + hashes + _STEP
        value = (value ^ (value >> np.uint64(30))) * _FIRST
        value = (value ^ (value >> np.uint64(27))) * _SECOND
        mixed: Hashes = value ^ (value >> np.uint64(31))
        return mixed
