"""Runs a topology by Spark's Structured Streaming, on the driver: one query, one write of results a micro-batch."""

from __future__ import annotations

import copyreg
import re
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.client.model import EARLIEST, LATEST, IsolationLevel
from ottla.rows.connections import cluster
from ottla.rows.kafka_settings import consumer_settings
from ottla.spark.delivery import ADAPTIVE, AT_LEAST_ONCE, EXACTLY_ONCE
from ottla.spark.each_batch import running_query, setting, write_batch
from ottla.spark.session import register_source
from ottla.streams.difference import shape
from ottla.streams.errors import ProcessingError, TopologyError
from ottla.streams.graph import SinkNode, Topology
from ottla.streams.layout import TaskLayout, layout
from ottla.streams.naming import checked, nearest
from ottla.streams.on_error import OnError
from ottla.streams.on_spark.notes import ApplicationNote, BatchNote, Notes
from ottla.streams.on_spark.places import held, open_files, state_url
from ottla.streams.on_spark.plan import Plan, planned, starting_offsets
from ottla.streams.on_spark.rows import COLUMNS
from ottla.streams.on_spark.stage import Application, Stage
from ottla.streams.on_spark.tables import Spans
from ottla.streams.patterns import bound, subscription
from ottla.streams.state.files import StateDamaged
from ottla.streams.stores.disk import MEMORY, check_stores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

EXACT, WATERMARK = "exact", "watermark"
STOP_POLL_S = 2.0
NEVER_NULL = "coalesce(headers, CAST(array() AS array<struct<key:string,value:binary>>)) AS headers"
"""Spark takes 50 µs to hand a list that is null to Python, as it looks at all before it; an empty one costs nothing."""
_SAID = re.compile(r"(ProcessingError|TopologyError|StateDamaged): (.+)")
_KINDS: dict[str, type[Exception]] = {
    "ProcessingError": ProcessingError, "TopologyError": TopologyError, "StateDamaged": StateDamaged,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SparkRun:
    """The settings of a run. `checkpoint` is a place for Spark, `state` one for the state files."""

    application_id: str
    kafka: Mapping[str, str]
    checkpoint: str
    state: str
    delivery: str = EXACTLY_ONCE
    lateness: str = EXACT
    max_records: int = 200_000
    every_s: float = 0.0
    available_now: bool = False
    on_error: OnError = field(default_factory=OnError)
    dead_letter: str | None = None
    stores: str = MEMORY

    def check(self) -> None:
        """TopologyError for a value that is not allowed."""
        checked(self.application_id)
        check_stores(self.stores)
        for name, value, known in (
            ("delivery", self.delivery, (EXACTLY_ONCE, AT_LEAST_ONCE)),
            ("lateness", self.lateness, (EXACT, WATERMARK)),
        ):
            if value not in known:
                raise TopologyError(f"{name}={value!r} is not known{nearest(value, known)}")
        if self.max_records < 1:
            raise TopologyError(f"max_records={self.max_records} must be above 0")
        if self.every_s < 0:
            raise TopologyError(f"every={self.every_s} s must not be negative")


def run_on_spark(
    topology: Topology,
    settings: SparkRun,
    spark: SparkSession,
    *,
    stop: threading.Event,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Run until `stop`, or to the present ends of the topics with `available_now`.

    Raises ProcessingError where a function of the user's fails, TopologyError for what cannot be run, StateDamaged
    where state is missing or damaged; Spark's own error else.
    """
    settings.check()
    try:
        with held(open_files(state_url(settings.state)), settings.application_id):
            job = _Job(topology, settings, spark)
            for line in job.changes:
                tell(f"changed since the last run: {line}")
            job.work(stop)
    except Exception as fault:
        kind_and_text = _SAID.search(str(fault))
        if kind_and_text is None or isinstance(fault, tuple(_KINDS.values())):
            raise
        raise _KINDS[kind_and_text[1]](kind_and_text[2].strip()) from fault


def application_note(
    topology: Topology, application_id: str, kafka: Mapping[str, str]
) -> tuple[ApplicationNote, TaskLayout, Topology]:
    """The note of an application, its layout, and its topology with the topics that its patterns match now.

    TopologyError where topics are missing or do not fit.
    """
    known = cluster(consumer_settings(kafka)).topics()
    topology = bound(topology, known)
    if missing := [topic for topic in topology.topics() if topic not in known]:
        raise TopologyError(f"the topic {missing[0]} does not exist: make it first (ottla topic create {missing[0]})")
    counts = {topic: len(known[topic].partitions) for topic in topology.topics()}
    made = layout(topology, application_id, counts)
    marker = next(topic for topic in topology.topics() if topic in made.part_of)
    return ApplicationNote(application_id, shape(topology), made.tasks, marker), made, topology


class _Job:
    """One run of the driver."""

    def __init__(self, topology: Topology, settings: SparkRun, spark: SparkSession) -> None:
        from pyspark.sql import DataFrame

        if not hasattr(DataFrame, "repartitionById"):
            raise TopologyError(f"Spark {spark.version} lacks repartitionById: streams need Spark 4.2 or newer")
        self._topology, self._settings, self._spark = topology, settings, spark
        self._globals = [topic for source in topology.sources() if source.global_store for topic in source.topics]
        sinks = (node for node in topology.nodes.values() if isinstance(node, SinkNode))
        self._chooses_partitions = any(sink.partitioner is not None for sink in sinks)
        self._notes = Notes(open_files(state_url(settings.state)))
        note, made, self._bound = application_note(topology, settings.application_id, settings.kafka)
        self._note, changes = self._notes.admit(note)
        self.changes = changes.harmless
        self._plan_for(made)

    def _plan_for(self, made: TaskLayout) -> None:
        """Plan for the topics that are bound now; workers take it as a run of its own."""
        settings = self._settings
        self._run = uuid.uuid4().hex
        self._plan = planned(self._bound, made)
        by_time = settings.lateness == WATERMARK
        self._application = _pickled(
            Application(
                self._run, self._bound, self._plan, state_url(settings.state), dict(settings.kafka), by_time, made,
                settings.on_error, settings.dead_letter, settings.stores,
            )
        )  # fmt: skip

    def _bind_again(self) -> None:
        """Take in the topics that match a pattern since; TopologyError where their partitions fit no task."""
        if not self._topology.patterns():
            return
        note, made, found = application_note(self._topology, self._settings.application_id, self._settings.kafka)
        if found.topics() != self._bound.topics():
            self._note, _ = self._notes.admit(note)
            self._bound = found
            self._plan_for(made)

    def work(self, stop: threading.Event) -> None:
        """Start the query and wait for its end."""
        register_source(self._spark)
        self._notes.forget_stop()
        self._follow(stop)
        self._notes.forget_stop()

    def _follow(self, stop: threading.Event) -> None:
        query = self._started()
        looked = time.monotonic()
        try:
            while not query.awaitTermination(1):
                if time.monotonic() > looked + STOP_POLL_S:
                    looked = time.monotonic()
                    if self._notes.must_stop():
                        stop.set()
                if stop.is_set():
                    query.stop()
        finally:
            if query.isActive:
                query.stop()

    def _started(self) -> StreamingQuery:
        settings = self._settings
        writer = self._rows().writeStream.foreachBatch(self._batch)
        writer = writer.queryName(f"{settings.application_id}").option("checkpointLocation", settings.checkpoint)
        if settings.available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{settings.every_s} seconds").start()

    def _rows(self) -> DataFrame:
        """The records of all topics, in the columns of the stages but for the level."""
        topics = self._outside()
        options = {f"kafka.{name}": value for name, value in self._settings.kafka.items()}
        options |= {
            "kafka.isolation.level": "read_committed",
            "publishGroup": self._settings.application_id,
            "includeHeaders": "true",
            "startingOffsets": starting_offsets(self._plan, topics, self._bound.latest(), self._notes.beginning()),
            "maxOffsetsPerTrigger": str(self._settings.max_records),
        }
        pattern = subscription(self._bound)
        options |= {"subscribe": ",".join(topics)} if pattern is None else {"subscribePattern": pattern}
        source = self._spark.readStream.format("ottla").options(**options).load()
        return source.selectExpr(
            "topic", "partition", "offset", "partition AS producer", "unix_millis(timestamp) AS timestamp", "key",
            "value", NEVER_NULL,
        )  # fmt: skip

    def _batch(self, frame: DataFrame, batch: int) -> None:
        """Run one micro-batch through all levels, and write its results."""
        query = running_query(frame.sparkSession)
        assert query is not None, "Spark calls this in a query"
        self._bind_again()
        self._note = self._notes.admit_query(self._note, query)
        frame = frame.selectExpr("*", f"{self._level()} AS level")
        fresh = BatchNote(int(time.time() * 1000), self._ends())
        note = self._notes.batch(batch, fresh)
        for number, level in enumerate(self._plan.levels):
            stage = Stage(self._run, self._application, number, batch, note.now_ms, note.tables)
            if not (number == 0 and level.keeps_nothing):
                frame = frame.repartitionById(len(level.buckets), _bucket(self._plan, number))
            frame = frame.mapInArrow(_function(stage), COLUMNS)
        columns = ("topic", "key", "value", "headers", *(["partition"] if self._chooses_partitions else []))
        results = frame.selectExpr(*columns, "timestamp_millis(timestamp) AS timestamp")
        options = {f"kafka.{name}": value for name, value in self._settings.kafka.items()} | {"timestamps": "column"}
        if self._settings.delivery == EXACTLY_ONCE:
            write_batch(results, batch, {**options, "delivery.marker.topic": self._note.marker_topic})
            return
        register_source(self._spark)
        with setting(self._spark, ADAPTIVE, "false"):
            results.write.format("ottla").options(**options).mode("append").save()

    def _outside(self) -> list[str]:
        """The topics that are read from outside."""
        return [topic for topic in self._plan.part_of if topic in self._note.shape.topics]

    def _level(self) -> str:
        """The level of each row by its topic. One that is not known was read before it was deleted."""
        levels = " ".join(f"WHEN {_quoted(topic)} THEN {self._plan.level_of[topic]}" for topic in self._outside())
        fault = "raise_error(concat('the topic ', topic, ' is not known: it is gone, or too new'))"
        return f"CASE topic {levels} ELSE {fault} END"

    def _ends(self) -> Spans:
        """The spans of global tables as they are now; the committed part."""
        where = cluster(consumer_settings(self._settings.kafka))
        spans: dict[str, dict[str, tuple[int, int]]] = {}
        for topic in self._globals:
            partitions = where.partitions(topic)
            starts = where.list_offsets(partitions, EARLIEST)
            ends = where.list_offsets(partitions, LATEST, IsolationLevel.READ_COMMITTED)
            spans[topic] = {str(each.partition): (starts[each].offset, ends[each].offset) for each in partitions}
        return spans


def _bucket(plan: Plan, number: int) -> Column:
    """The Spark partition of each row: that of its task, or any fixed one for rows that only pass."""
    from pyspark.sql.functions import expr

    level = plan.levels[number]
    firsts = " ".join(f"WHEN {_quoted(topic)} THEN {level.first[plan.part_of[topic]]}" for topic in level.topics)
    passing = f"pmod(producer, {len(level.buckets)})"
    return expr(f"CASE WHEN level = {number} THEN (CASE topic {firsts} END) + partition ELSE {passing} END")


copyreg.pickle(struct.Struct, lambda one: (struct.Struct, (one.format,)))  # serdes hold them; Python pickles none


def _pickled(application: Application) -> bytes:
    from pyspark import cloudpickle

    try:
        made: bytes = cloudpickle.dumps(application)  # type: ignore[no-untyped-call]
    except Exception as fault:
        raise TopologyError(
            f"the topology cannot be sent to Spark's workers ({fault}): make what its functions use inside of them, or "
            "in a module that the workers can import"
        ) from fault
    return made


def _function(stage: Stage) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Spark takes functions only, and looks at their signature."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return stage(batches)

    return run


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
