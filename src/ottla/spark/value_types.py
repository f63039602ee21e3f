"""Spark's types for the columns of formats/, and back: the types of a value on the driver and on the executors.

Aliases and defaults of fields travel in the metadata of Spark's fields, so that an executor reads older records as
the schema says that the query started with.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NOTES = (b"ottla.aliases", b"ottla.default", b"ottla.number")
MOST_DIGITS = 38


def spark_type(kind: pa.DataType, path: str = "value") -> DataType:
    """The Spark type of a column, or ValueError where there is none."""
    import pyarrow as pa

    simple: dict[pa.DataType, DataType] = {
        pa.bool_(): BooleanType(),
        pa.int8(): ShortType(),
        pa.int16(): ShortType(),
        pa.int32(): IntegerType(),
        pa.int64(): LongType(),
        pa.float32(): FloatType(),
        pa.float64(): DoubleType(),
        pa.string(): StringType(),
        pa.binary(): BinaryType(),
        pa.date32(): DateType(),
        pa.null(): NullType(),
    }
    if kind in simple:
        return simple[kind]
    if pa.types.is_timestamp(kind):
        return TimestampNTZType() if kind.tz is None else TimestampType()
    if pa.types.is_time(kind):
        return LongType()  # microseconds since midnight: Spark's own TIME cannot be written to most formats
    if pa.types.is_decimal(kind) and kind.precision <= MOST_DIGITS:
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return StructType([_field(field, f"{path}.{field.name}") for field in kind])
    if pa.types.is_list(kind):
        return ArrayType(spark_type(kind.value_type, f"{path}[]"))
    if pa.types.is_map(kind):
        return MapType(spark_type(kind.key_type, path), spark_type(kind.item_type, f"{path}[]"))
    raise ValueError(f"{path} is a {kind} in its schema, which Spark has no type for")


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type that Spark expects for one of its own, with the notes of `spark_type`."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    if isinstance(kind, StructType):
        return pa.struct(
            [
                pa.field(each.name, arrow_type(each.dataType), each.nullable, metadata=_notes(each))
                for each in kind.fields
            ]
        )
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType), kind.containsNull))
    if isinstance(kind, MapType):
        return pa.map_(
            pa.field("key", arrow_type(kind.keyType), False),
            pa.field("value", arrow_type(kind.valueType), kind.valueContainsNull),
        )
    return to_arrow_type(kind, timezone="UTC")


def _field(field: pa.Field, path: str) -> StructField:
    noted = {name: text for name, text in (field.metadata or {}).items() if name in _NOTES}
    metadata = {name.decode(): base64.b64encode(text).decode() for name, text in noted.items()}
    return StructField(field.name, spark_type(field.type, path), metadata=metadata)


def _notes(field: StructField) -> dict[bytes, bytes] | None:
    found = {name: field.metadata[name.decode()] for name in _NOTES if name.decode() in (field.metadata or {})}
    return {name: base64.b64decode(text) for name, text in found.items()} or None
