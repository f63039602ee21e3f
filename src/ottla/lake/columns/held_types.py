"""The types of a lake's columns: a type that a format, or a reader of its tables, lacks has a fitting one in its place.

Pure. No value changes: the type in place holds each of them exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ottla.lake.stores.base import LakeRefused

MOST_DIGITS = 38
"""The most digits of a decimal in Delta, Iceberg, Spark and polars."""

_NUMBERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
_COMMON = frozenset((*_NUMBERS, pa.bool_(), pa.string(), pa.binary(), pa.date32()))


def held_type(kind: pa.DataType, format: str) -> pa.DataType:
    """The type of a column of a lake in this format, given that of its values.

    A decimal of more than 38 digits is text. Times in nanoseconds are whole numbers of them since 1970 in tables, and
    a time of day is microseconds since midnight in Delta, as in the Spark source.
    """
    if pa.types.is_struct(kind):
        return pa.struct([_held(field, format) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_held(kind.value_field, format))
    if pa.types.is_map(kind):
        return pa.map_(_held(kind.key_field, format), _held(kind.item_field, format))
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
    for field in columns:
        for kind in _leaves(field.type):
            if not _has(kind, format):
                raise LakeRefused(
                    f"column {field.name} has values of the type {kind}, which a table in {format.capitalize()} cannot "
                    f"hold: leave the field out by --exclude-fields, or load into --format parquet"
                )


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types inside a type that are not nested; of an object without members the object itself."""
    if not pa.types.is_nested(kind) or (pa.types.is_struct(kind) and not kind.num_fields):
        yield kind
        return
    for place in range(kind.num_fields):
        yield from _leaves(kind.field(place).type)


def _has(kind: pa.DataType, format: str) -> bool:
    if pa.types.is_timestamp(kind):
        return str(kind.unit) == "us"
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= MOST_DIGITS)
    return kind in _COMMON or (format == "iceberg" and kind == pa.time64("us"))


def _held(field: pa.Field, format: str) -> pa.Field:
    return field.with_type(held_type(field.type, format))
