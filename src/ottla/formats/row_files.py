"""Rows of Avro and Parquet files as Python's objects, block by block: for consoles, not for columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from ottla.formats.faults import BadPayload

BLOCK_ROWS = 1000


def avro_rows(stream: BinaryIO) -> Iterator[list[dict[str, Any]]]:
    """The records of an Avro object container file, with logical types as Python's; BadPayload for damage."""
    import fastavro

    rows: list[dict[str, Any]] = []
    try:
        for row in fastavro.reader(stream):
            if not isinstance(row, dict):
                raise BadPayload("its values are not records: only records have fields")
            rows.append(row)
            if len(rows) == BLOCK_ROWS:
                yield rows
                rows = []
    except BadPayload:
        raise
    except _avro_faults() as fault:
        yield rows
        raise BadPayload(f"it is damaged, or ends early: {fault or type(fault).__name__}") from None
    yield rows


def _avro_faults() -> tuple[type[Exception], ...]:
    """The errors of fastavro for bytes that are not a file of Avro."""
    import zlib

    from fastavro.schema import SchemaParseException, UnknownType

    return EOFError, ValueError, TypeError, IndexError, KeyError, SchemaParseException, UnknownType, zlib.error


def parquet_rows(stream: BinaryIO) -> Iterator[list[dict[str, Any]]]:
    """The rows of a Parquet file; BadPayload for damage, and for values that Python does not have."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(stream).iter_batches(BLOCK_ROWS):
            fitting = pa.table([_in_micros(pa, column) for column in batch.columns], batch.schema.names)
            yield fitting.to_pylist(maps_as_pydicts="strict")
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as fault:
        raise BadPayload(f"it cannot be read: {fault}") from None


def _in_micros(pa: Any, column: Any) -> Any:
    """Times of nanoseconds as microseconds, which Python has; ArrowInvalid where a digit would be lost."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pa.timestamp("us", kind.tz))
    return column.cast(pa.time64("us")) if kind == pa.time64("ns") else column
