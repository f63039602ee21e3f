"""`df.write` and `df.writeStream`: columns are checked on the driver, rows written on executors by writer.py.

Comes from source.py. Nothing heavy is imported before it is needed, as in batch.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.rows.value_options import WITH_SCHEMA
from ottla.spark.delivery import BATCH_ID, batch_task, streaming_task
from ottla.spark.marker import SparkTask
from ottla.spark.options import SinkOptions
from ottla.spark.plainly import said_plainly

if TYPE_CHECKING:
    import pyarrow as pa

ACCEPTED: dict[str, tuple[str, ...]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}


def check_columns(schema: StructType, topic: str | None, *, typed: bool = False, timed: bool = False) -> None:
    """Refuse columns that cannot be written, in the words of Spark's connector; other columns are left alone.

    A typed value is of any type that its schema takes. With `timed` there must be a column of times.
    """
    kinds = {each.name: each.dataType.simpleString() for each in schema.fields}
    if topic is None and "topic" not in kinds:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in kinds:
        raise ValueError("Required attribute 'value' not found")
    if timed and kinds.get("timestamp") != "timestamp":
        has = f"it is of type {kinds['timestamp']}" if "timestamp" in kinds else "there is none"
        raise ValueError(f"Option 'timestamps' column needs a column timestamp of type timestamp, and {has}")
    for name, accepted in ACCEPTED.items():
        free = (name == "topic" and topic is not None) or (name == "value" and typed)
        if name in kinds and kinds[name] not in accepted and not free:
            raise ValueError(
                f"{name} attribute unsupported type {kinds[name]}. {name} must be a(n) {' or '.join(accepted)}"
            )


def checked(options: SinkOptions, schema: StructType) -> SinkOptions:
    """The options with the schema that values are written by, or ValueError."""
    check_columns(schema, options.topic, typed=options.values.kind in WITH_SCHEMA, timed=options.timed)
    if options.values.kind not in WITH_SCHEMA:
        return options
    from ottla.spark.written_values import settled

    return replace(options, written_by=settled(options.values, schema["value"].dataType, options.topic))


@dataclass(frozen=True)
class WrittenRows(WriterCommitMessage):
    """The message of a task about the rows that it wrote."""

    rows: int
    batches: int


class OttlaBatchWriter(DataSourceArrowWriter):
    """Writes a data frame. Tasks commit their own transactions, so there is nothing to commit or take back here."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = checked(options, schema)
        self._job = f"job-{uuid.uuid4().hex}"

    @said_plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        delivery = self.options.delivery
        if delivery is None:
            return _write(self.options, iterator)
        return _write_once(self.options, batch_task(delivery, self._job, *_where_this_runs()), iterator)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches; as with batches there is nothing to commit or take back."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = checked(options, schema)

    @said_plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        delivery = self.options.delivery
        if delivery is None:
            property_of, _ = _where_this_runs()
            return _write(self.options, iterator, patient=int(property_of(BATCH_ID) or 0) > 0)
        return _write_once(self.options, streaming_task(delivery, *_where_this_runs()), iterator)


def _write(options: SinkOptions, batches: Iterator[pa.RecordBatch], *, patient: bool = False) -> WrittenRows:
    """Write the rows of one task; on the executor."""
    from ottla.spark.workers import import_ahead
    from ottla.spark.writer import write_rows

    import_ahead()
    return write_rows(options, batches, patient=patient)


def _write_once(options: SinkOptions, task: SparkTask, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    """Write the rows of one task; on the executor."""
    from ottla.spark.once import write_once
    from ottla.spark.workers import import_ahead

    import_ahead()
    return write_once(options, task, batches)


def _where_this_runs() -> tuple[Callable[[str], str | None], int]:
    """The properties of the task that runs here, and its number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "Spark calls write() in a task"
    return context.getLocalProperty, context.partitionId()
