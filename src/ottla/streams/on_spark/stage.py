"""A Spark task at one level: it brings its state up to date, runs the engine, writes the state, and yields rows.

A worker keeps the tasks that it has run; one that another worker has run since is brought up to date by its deltas.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.connections import cluster
from ottla.rows.kafka_settings import KafkaSettings, consumer_settings
from ottla.streams.connection import told_partitions
from ottla.streams.engine.task import Output, Results, Task
from ottla.streams.errors import ProcessingError, TopologyError
from ottla.streams.graph import SinkNode, Topology
from ottla.streams.layout import TaskLayout
from ottla.streams.letters import letter
from ottla.streams.on_error import OnError
from ottla.streams.on_spark.places import open_files
from ottla.streams.on_spark.plan import Level, Plan
from ottla.streams.on_spark.rows import SCHEMA, check_places, in_order, inputs, made, waiting
from ottla.streams.on_spark.tables import Spans, WorkerTables
from ottla.streams.state.files import StateDamaged, Step
from ottla.streams.state.folder import NOTHING, Kept, StateFolder
from ottla.streams.stores.disk import database
from ottla.streams.values import Input

if TYPE_CHECKING:
    from pyspark import TaskContext

IDLE_BATCHES = 3
"""A worker forgets a task that it has not run for so many batches."""
SAID = (ProcessingError, TopologyError, StateDamaged)
"""Errors whose sentence alone is for the user."""


@dataclass(frozen=True)
class Application:
    """The parts of a run that are the same in each batch; `run` tells this run of the driver from others."""

    run: str
    topology: Topology
    plan: Plan
    state: str
    kafka: Mapping[str, str]
    by_time: bool
    layout: TaskLayout
    on_error: OnError
    dead_letter: str | None
    stores: str

    @cached_property
    def repartitions(self) -> dict[str, int]:
        """The partitions of the topology's own topics."""
        sinks = (node for node in self.topology.nodes.values() if isinstance(node, SinkNode) and node.repartition)
        return {str(node.topic): self.plan.partitions[str(node.topic)] for node in sinks}


@dataclass(slots=True)
class _Held:
    task: Task
    kept: Kept


@dataclass
class _Worker:
    """Everything that this process keeps of one run."""

    application: Application
    kafka: KafkaSettings
    tables: WorkerTables
    tasks: dict[tuple[int, int], _Held] = field(default_factory=dict)


_workers: dict[str, _Worker] = {}


@dataclass(frozen=True, slots=True)
class Stage:
    """One level of one batch; `application` is pickled by value, and unpickled once in each worker."""

    run: str
    application: bytes
    level: int
    batch: int
    now_ms: int
    tables: Spans

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark calls a stage in a task"
        with _said_plainly():
            yield from self._run(context, batches)

    def _run(self, context: TaskContext, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        worker = self._worker()
        application = worker.application
        level = application.plan.levels[self.level]
        rows = pa.Table.from_batches(
            [pa.RecordBatch.from_arrays(each.columns, schema=SCHEMA) for each in batches], SCHEMA
        )
        yield from waiting(rows, self.level).to_batches()
        mine = rows.filter(pc.equal(rows.column("level"), pa.scalar(self.level, pa.int32())))
        number = context.partitionId()
        if not level.keeps_nothing:
            check_places(mine, application.plan, level.buckets[number])
        records = in_order(inputs(mine), by_time=application.by_time)
        if level.keeps_nothing:
            results = self._map(worker, level, records)
        else:
            results = self._step(worker, level.buckets[number], records)
        outputs = [*results.outputs, *_letters(application, results)]
        if outputs:
            yield made(outputs, application.plan, application.repartitions, self.level * 1_000_000 + number)

    def _worker(self) -> _Worker:
        if self.run not in _workers:
            from pyspark import cloudpickle

            _workers.clear()  # of an earlier run of the driver
            application: Application = cloudpickle.loads(self.application)
            kafka = consumer_settings({**application.kafka, "isolation.level": "read_committed"})
            tables = WorkerTables(application.topology, kafka, application.stores)
            _workers[self.run] = _Worker(application, kafka, tables)
        worker = _workers[self.run]
        if worker.tables.read_to(self.tables):
            worker.tasks.clear()  # they hold the stores from before
        return worker

    def _map(self, worker: _Worker, level: Level, records: Iterable[Input]) -> Results:
        """Run tasks that keep nothing, all partitions in one."""
        task = self._task(worker, list(level.first))
        task.feed_in_order(records)
        return task.take(self.batch)

    def _step(self, worker: _Worker, bucket: tuple[int, int], records: Iterable[Input]) -> Results:
        """Run one task from the state of the step before, and make its own state durable."""
        part, partition = bucket
        step = Step(self.batch, self.level)
        plan = worker.application.plan
        held = self._up_to_date(worker, bucket, step)
        task = held.task
        count = task.feed_in_order(records)
        task.advance(max(self.now_ms, task.wall_clock_ms))
        results = task.take(self.batch)
        told = _told(held.kept.told, task, results, count)
        folder = self._folder(worker, bucket)
        kept = folder.write(step, held.kept, results.changes, task.stores, told, task.times.seen)
        worker.tasks[part, partition] = _Held(task, kept)
        if self.level == plan.first_level(part):
            self._forget_idle(worker)
        return results

    def _up_to_date(self, worker: _Worker, bucket: tuple[int, int], step: Step) -> _Held:
        """The task with the state before a step. One that has gone further, in an attempt that failed, is dropped."""
        part, _ = bucket
        plan = worker.application.plan
        held = worker.tasks.pop(bucket, None)
        before = plan.before(part, self.batch, self.level)
        if held is not None and before is not None and held.kept.step == before:
            return held
        at = held.kept.step if held else None
        if held is None or at is None or at >= step or at.batch < self.batch - IDLE_BATCHES:
            held = _Held(self._task(worker, [part]), NOTHING)
        first = self.level == plan.first_level(part)
        kept = self._folder(worker, bucket).restore(
            step, held.task.stores, held.task.restore, held=held.kept, first=first
        )
        return _Held(held.task, kept)

    def _task(self, worker: _Worker, parts: list[int]) -> Task:
        topology = worker.application.topology
        return Task(
            topology, sub_topologies=parts, loops_back=False, in_levels=True, wall_clock_ms=self.now_ms,
            shared=worker.tables.stores, on_error=worker.application.on_error, rows=database(worker.application.stores),
            partitions_of=partial(_partitions_of, worker.kafka),
        )  # fmt: skip

    def _folder(self, worker: _Worker, bucket: tuple[int, int]) -> StateFolder:
        return StateFolder(open_files(worker.application.state), f"{bucket[0]}/{bucket[1]}")

    def _forget_idle(self, worker: _Worker) -> None:
        for bucket, held in list(worker.tasks.items()):
            if held.kept.step is not None and held.kept.step.batch < self.batch - IDLE_BATCHES:
                del worker.tasks[bucket]


def _partitions_of(kafka: KafkaSettings, topic: str) -> int:
    """The number of a topic's partitions now."""
    with told_partitions(topic):
        where = cluster(kafka, patient=True)
        where.refresh([topic], create=True)
        where.run(where.plan.ensure([topic], create=True))
        return len(where.topic(topic).partitions)


def _letters(application: Application, results: Results) -> Iterator[Output]:
    """The records that were left out and are kept, as results for the topic of dead letters."""
    for at, fault in enumerate(fault for fault in results.faults if fault.letter):
        assert application.dead_letter is not None
        kept = letter(fault, application.layout)
        headers = tuple(kept.headers)
        yield Output(application.dead_letter, fault.node, kept.key, kept.value, kept.timestamp, headers, at)


def _told(before: Mapping[str, Any], task: Task, results: Results, records: int) -> dict[str, Any]:
    """The counters after a step, which grow from step to step."""
    dropped = dict(before.get("dropped", {}))
    for node, count in (Counter(fault.node for fault in results.faults) + Counter(results.dropped)).items():
        dropped[node] = dropped.get(node, 0) + count
    return {
        "records": before.get("records", 0) + records,
        "results": before.get("results", 0) + len(results.outputs),
        "dropped": dropped,
        "rows": {name: len(store) for name, store in task.stores.items()},
        "stream_time": task.times.seen.get("", -1),
    }


@contextmanager
def _said_plainly() -> Iterator[None]:
    """Let an error that is meant for the user leave Spark's worker without the worker's own traceback."""
    try:
        yield
    except SAID:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
