"""What `df.write` and `df.writeStream` get: columns are checked on the driver, rows written on executors by writer.py.

Comes from source.py. Nothing heavy is imported before it is needed, as in batch.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.spark.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

ACCEPTED: dict[str, tuple[str, ...]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuse what cannot be written, in the words of Spark's connector; other columns are left alone."""
    kinds = {each.name: each.dataType.simpleString() for each in schema.fields}
    if topic is None and "topic" not in kinds:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in kinds:
        raise ValueError("Required attribute 'value' not found")
    for name, accepted in ACCEPTED.items():
        if name in kinds and kinds[name] not in accepted and not (name == "topic" and topic is not None):
            raise ValueError(
                f"{name} attribute unsupported type {kinds[name]}. {name} must be a(n) {' or '.join(accepted)}"
            )


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task wrote."""

    rows: int
    batches: int


class OttlaBatchWriter(DataSourceArrowWriter):
    """Writes a data frame; there is nothing to commit or take back."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options.topic)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self.options, iterator)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches; there is nothing to commit or take back."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options.topic)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self.options, iterator)


def _write(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """On the executor."""
    from ottla.spark.workers import import_ahead
    from ottla.spark.writer import write_rows

    import_ahead()
    return write_rows(options, batches)
