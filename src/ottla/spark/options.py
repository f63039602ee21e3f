"""The options of `format("ottla")`: names, defaults and refusals of Spark's own Kafka connector.

Options arrive as text, from source.py, and leave as `SourceOptions` and `SinkOptions`. They are declared in
declared_options.py; settings under `kafka.` are judged in kafka_settings.py.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.rows.connections import cluster
from ottla.rows.kafka_settings import KafkaSettings, consumer_settings, producer_settings
from ottla.rows.plan import Limit
from ottla.rows.selection import COLUMNS, HEADERS, Selection
from ottla.rows.survey import FetchRetries, Survey
from ottla.rows.value_options import BYTES, MODES, VALUE, VALUE_ERROR, ValueOptions, value_options
from ottla.spark.declared_options import GivenOptions
from ottla.spark.delivery import SparkDelivery, delivery_options
from ottla.spark.read_limits import limits, selection_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from ottla.spark.written_values import WrittenBy

log = logging.getLogger("ottla.spark")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of one read."""

    selection: Selection
    kafka: KafkaSettings
    starting: Limit
    ending: Limit
    columns: tuple[str, ...]
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    offset_retries: int = 3
    offset_retry_interval_ms: int = 10
    group_id_prefix: str = "spark-kafka-source"
    publish_group: str | None = None
    publish_offsets: bool = True
    pushdown: bool = False
    null_times: bool = False
    """True if a record's time that a timestamp cannot hold is null; else it fails the query."""
    values: ValueOptions = BYTES
    value_type: DataType | None = None
    """The type of typed values, fixed when the query started."""

    def survey(self) -> Survey:
        """A survey of the selected partitions, over this process's connections."""
        retries = FetchRetries(self.offset_retries, self.offset_retry_interval_ms)
        read_committed = self.kafka.read_committed
        return Survey(cluster(self.kafka), self.selection, read_committed=read_committed, retries=retries)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The parsed options of one write."""

    kafka: KafkaSettings
    topic: str | None
    values: ValueOptions = BYTES
    written_by: WrittenBy | None = None
    """The schema of typed values, settled when the query started."""
    delivery: SparkDelivery | None = None
    """The way in which rows are written exactly once; None: at least once."""
    timed: bool = False
    """True if the column timestamp holds the records' times."""


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Understand a source's options or raise ValueError in the words of Spark's connector."""
    given = GivenOptions(options)
    selection = selection_of(given)
    if streaming:
        for name, noun in (("endingOffsets", "offset"), ("endingOffsetsByTimestamp", "timestamp")):
            if given.has(name):
                raise ValueError(f"ending {noun} not valid in streaming queries")
        if given.has("endingTimestamp"):
            raise ValueError("ending timestamp not valid in streaming queries")
    starting, ending = limits(given, streaming=streaming)
    if not streaming:
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            if given.has(name):
                log.warning("%s option ignored in batch queries", name)
    least, most = given.positive("minOffsetsPerTrigger"), given.positive("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ValueError(f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}).")
    kafka = consumer_settings(given.kafka)
    if kafka.group_id and given.has("groupIdPrefix"):
        log.warning("Option groupIdPrefix will be ignored as option kafka.group.id has been set.")
    return SourceOptions(
        selection=selection,
        kafka=kafka,
        starting=starting,
        ending=ending,
        columns=source_columns(options),
        min_partitions=given.positive("minPartitions"),
        max_records_per_partition=given.positive("maxRecordsPerPartition"),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=duration_ms(given.text("maxTriggerDelay") or "15m"),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        poll_timeout_ms=given.number("kafkaConsumer.pollTimeoutMs", 120_000),
        offset_retries=given.count("fetchOffset.numRetries", 3),
        offset_retry_interval_ms=given.count("fetchOffset.retryIntervalMs", 10),
        group_id_prefix=given.text("groupIdPrefix") or "spark-kafka-source",
        publish_group=given.text("publishGroup") or kafka.group_id,
        publish_offsets=given.flag("publishOffsets", default=True),
        pushdown=given.flag("pushdown", default=False),
        null_times=given.chosen("timestamp.mode", MODES) == "permissive",
        values=value_options(given.text),
    )


@dataclass(frozen=True, slots=True)
class Source:
    """The options of a read before it is known whether it is a batch or a stream."""

    selection: Selection
    kafka: KafkaSettings
    values: ValueOptions


def check_source(options: Mapping[str, str]) -> Source:
    """Refuse options that are wrong for batches and streams alike."""
    given = GivenOptions(options)
    return Source(selection_of(given), consumer_settings(given.kafka), value_options(given.text))


def source_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a read, which its schema needs."""
    given = GivenOptions(options)
    every = (*COLUMNS, HEADERS) if given.flag("includeHeaders", default=False) else COLUMNS
    if value_options(given.text).error_column:
        every = (*every, VALUE_ERROR)
    wanted = [name.strip() for name in (given.text("columns") or "").split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in every]:
        raise ValueError(f"Option 'columns' names {', '.join(unknown)}; there are: {', '.join(every)}")
    if VALUE_ERROR in wanted and VALUE not in wanted:
        raise ValueError(f"Option 'columns' names {VALUE_ERROR}, which needs the column {VALUE} beside it")
    return tuple(name for name in every if name in wanted) if wanted else every


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Understand a sink's options or raise ValueError in the words of Spark's connector."""
    given = GivenOptions(options)
    text = given.text("topic")
    topic = text.strip() if text is not None else None
    delivery = delivery_options(given.text, topic)
    timed = given.chosen("timestamps", ("now", "column")) == "column"
    return SinkOptions(producer_settings(given.kafka), topic, value_options(given.text), delivery=delivery, timed=timed)


_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """Spark's time strings: 100, 100ms, 10s, 15m, 15min, 2h, 1d; a bare number is milliseconds."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] or "ms") not in _UNITS_MS:
        raise ValueError(f"not a length of time: '{text}'; write e.g. 50ms, 10s, 15m, 2h or 1d")
    return int(int(match[1]) * _UNITS_MS[match[2] or "ms"])
