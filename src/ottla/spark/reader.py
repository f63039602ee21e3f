"""Ranges into the record batches that a Spark task yields, for batches and streams alike; typed values are decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from ottla.rows.plan import OffsetRange
from ottla.rows.read import read_decoded
from ottla.rows.selection import COLUMNS, HEADERS
from ottla.rows.value_options import VALUE
from ottla.rows.values import typed
from ottla.spark.options import SourceOptions
from ottla.spark.value_types import arrow_type

EVERY = (*COLUMNS, HEADERS)


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
        for piece in pieces:
            if wanted is None:
                yield piece.batch
            else:
                yield typed(piece.batch, options.values, wanted, columns, str(span.topic_partition))
