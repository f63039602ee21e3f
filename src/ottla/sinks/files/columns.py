"""Structs of Connect as columns of Parquet: the types, the values, and one file as it is written."""

from __future__ import annotations

from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.connect.converters.json_schema import scale_of
from ottla.connect.data import DATE, DAY_MS, DECIMAL, TIME, TIMESTAMP, Instant, Schema, Struct, Type
from ottla.connect.errors import DataException

ROWS: Final = 10_000
"""Rows that are held before they are written as one group."""
_MOST_DIGITS: Final = 38
_PLAIN: Final = {
    Type.INT8: pa.int8(), Type.INT16: pa.int16(), Type.INT32: pa.int32(), Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(), Type.FLOAT64: pa.float64(), Type.BOOLEAN: pa.bool_(), Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}  # fmt: skip
_TIMES: Final = {DATE: pa.date32(), TIME: pa.time32("ms"), TIMESTAMP: pa.timestamp("ms", "UTC")}


def arrow_type(schema: Schema | None) -> pa.DataType:
    """The type of a column."""
    if schema is None:
        raise DataException("Parquet has no column for values of any type")
    if schema.name in _TIMES:
        return _TIMES[schema.name]
    if schema.name == DECIMAL:
        return pa.decimal128(_MOST_DIGITS, scale_of(schema))
    match schema.type:
        case Type.STRUCT if not schema.members:
            raise DataException("Parquet has no column for a struct without fields")
        case Type.STRUCT:
            return pa.struct([_field(member.name, member.schema) for member in schema.members])
        case Type.ARRAY:
            return pa.list_(_field("element", schema.value))
        case Type.MAP:
            return pa.map_(arrow_type(schema.key), _field("value", schema.value))
    return _PLAIN[schema.type]


def _field(name: str, schema: Schema | None) -> pa.Field:
    return pa.field(name, arrow_type(schema), nullable=schema is None or schema.optional)


def plain(schema: Schema, value: Any) -> Any:
    """A value as Arrow takes it."""
    match value:
        case Instant():
            return value.ms // DAY_MS if schema.name == DATE else value.ms
        case Struct():
            pairs = zip(value.schema.members, value.filled(), strict=True)
            return {member.name: plain(member.schema, item) for member, item in pairs}
        case list() if schema.value is not None:
            return [plain(schema.value, item) for item in value]
        case dict() if schema.key is not None and schema.value is not None:
            return [(plain(schema.key, key), plain(schema.value, item)) for key, item in value.items()]
    return value


class ParquetColumns:
    """One file of structs with one schema."""

    def __init__(self, schema: Schema, codec: str) -> None:
        self._schema, self._codec = schema, codec
        self._type = arrow_type(schema)
        self._arrow = pa.schema(list(self._type))
        self._rows: list[Any] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, value: Struct, out: IO[bytes]) -> None:
        """Take a struct; DataException where a column cannot hold its value."""
        row = plain(self._schema, value)
        try:
            pa.scalar(row, self._type)
        except (pa.ArrowInvalid, OverflowError) as fault:
            raise DataException(f"Parquet cannot hold the value: {fault}") from None
        self._rows.append(row)
        if len(self._rows) >= ROWS:
            self._write(out)

    def finish(self, out: IO[bytes]) -> None:
        """Write all that is left, and the end of the file. May be called again."""
        if self._writer is None or self._rows:
            self._write(out)
        assert self._writer is not None
        self._writer.close()

    def _write(self, out: IO[bytes]) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(pa.PythonFile(out, mode="w"), self._arrow, compression=self._codec)
        batch = pa.RecordBatch.from_struct_array(pa.array(self._rows, self._type))
        self._writer.write_table(pa.Table.from_batches([batch.cast(self._arrow)]))
        self._rows = []
