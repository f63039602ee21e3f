"""The types of a lake's columns: a type that a format, or a reader of its tables, lacks has a fitting one in its place.

Pure. No value changes: the type in place holds each of them exactly.
"""

from __future__ import annotations

import pyarrow as pa

from ottla.formats.columns import parts, places, with_leaves
from ottla.stores.base import LakeRefused

MOST_DIGITS = 38
"""The most digits of a decimal in Delta, Iceberg, Spark and polars."""

_NUMBERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
_COMMON = frozenset((*_NUMBERS, pa.bool_(), pa.string(), pa.binary(), pa.date32()))


def held_type(kind: pa.DataType, format: str) -> pa.DataType:
    """The type of a column of a lake in this format, given that of its values.

    A decimal of more than 38 digits is text. Times in nanoseconds are whole numbers of them since 1970 in tables, and
    a time of day is microseconds since midnight in Delta, as in the Spark source.
    """
    return with_leaves(kind, lambda leaf: _held(leaf, format))


def _held(kind: pa.DataType, format: str) -> pa.DataType:
    if pa.types.is_decimal(kind) and kind.precision > MOST_DIGITS:
        return pa.string()
    if pa.types.is_null(kind):
        return pa.string()  # values of a map that can only be null
    if pa.types.is_time(kind) and format == "delta":
        return pa.int64()
    if pa.types.is_timestamp(kind) and kind.unit == "ns" and format != "parquet":
        return pa.int64()
    return kind


def check_types(columns: pa.Schema, format: str) -> None:
    """LakeRefused where a table of the format cannot have one of these columns."""
    for path, kind in places(columns):
        if not parts(kind) and not _has(kind, format):  # an object without members has no parts either
            raise LakeRefused(
                f"column {path[0]} has values of the type {kind}, which a table in {format.capitalize()} cannot "
                f"hold: leave the field out by --exclude-fields, or load into --format parquet"
            )


def _has(kind: pa.DataType, format: str) -> bool:
    if pa.types.is_timestamp(kind):
        return str(kind.unit) == "us"
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= MOST_DIGITS)
    return kind in _COMMON or (format == "iceberg" and kind == pa.time64("us"))
