"""Ranges into the record batches that a Spark task yields, for batches and streams alike; typed values are decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from ottla.rows.arrow import beyond_time, without
from ottla.rows.plan import OffsetRange
from ottla.rows.read import read_decoded
from ottla.rows.selection import COLUMNS, HEADERS
from ottla.rows.value_options import VALUE
from ottla.rows.values import typed
from ottla.spark.options import SourceOptions
from ottla.spark.value_types import arrow_type

EVERY = (*COLUMNS, HEADERS)
TIME = "timestamp"


def read_ranges(spans: Iterable[OffsetRange], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The batches that a task yields."""
    columns = options.columns
    kind = options.value_type if options.values.typed and VALUE in columns else None
    wanted = None if kind is None else arrow_type(kind)
    needed = {*columns, VALUE, "offset", *([HEADERS] if options.values.urls else [])}
    fetched = columns if kind is None else tuple(name for name in EVERY if name in needed)
    for span in spans:
        pieces = read_decoded(
            span,
            options.kafka,
            columns=fetched,
            poll_timeout_ms=options.poll_timeout_ms,
            fail_on_data_loss=options.fail_on_data_loss,
            counted=False,
        )
        place = str(span.topic_partition)
        for piece in pieces:
            batch = _timed(piece.batch, options, place) if TIME in fetched else piece.batch
            yield batch if wanted is None else typed(batch, options.values, wanted, columns, place)


def _timed(batch: pa.RecordBatch, options: SourceOptions, place: str) -> pa.RecordBatch:
    """The batch with null, or ValueError, for times that a timestamp cannot hold."""
    column = batch.schema.get_field_index(TIME)
    beyond = beyond_time(batch.column(column))
    if not beyond.any():
        return batch
    if not options.null_times:
        at = batch.schema.get_field_index("offset")
        where = f"{place}, offset {batch.column(at)[int(beyond.argmax())].as_py()}" if at >= 0 else place
        raise ValueError(
            f"{where}: the record's time lies beyond the year 294246: its producer may have written nanoseconds for "
            "milliseconds. Option 'timestamp.mode' permissive gives null for such a time."
        )
    return batch.set_column(column, batch.schema.field(column), without(batch.column(column), beyond))
