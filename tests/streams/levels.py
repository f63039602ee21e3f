"""The levels of a plan without Spark: the same engine over the same batches, in memory, without cuts or restarts.

Spark's runs are held to this one, and the engine itself to Kafka's driver: so a failure names its half.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from ottla.streams import Topology
from ottla.streams.engine.task import Output, Task
from ottla.streams.layout import layout
from ottla.streams.on_spark.plan import DONE, Bucket, planned
from ottla.streams.on_spark.rows import SCHEMA, in_order, inputs, made
from ottla.streams.values import Input

APART = 1_000_000
"""Producers of one level have numbers that are so far from those of the next."""


class Levels:
    """Tasks of a topology over topics with so many partitions; one batch after the other."""

    def __init__(self, topology: Topology, partitions: Mapping[str, int]) -> None:
        laid = layout(topology, "levels", dict(partitions))
        self._topology, self._plan = topology, planned(topology, laid)
        self._repartitions = {topic: self._plan.partitions[topic] for topic in laid.repartitions}
        self._tasks: dict[Bucket, Task] = {}

    def run(self, batch: int, records: Iterable[Input]) -> list[Output]:
        """The results of one batch of records, in the order in which tasks made them."""
        rows = self._read(records)
        results: list[Output] = []
        for number, level in enumerate(self._plan.levels):
            mine = rows.filter(pc.equal(rows.column("level"), pa.scalar(number, pa.int32())))
            written = [rows.filter(pc.not_equal(rows.column("level"), pa.scalar(number, pa.int32())))]
            maps = number == 0 and level.keeps_nothing
            for at, bucket in enumerate(self._sources(mine) if maps else level.buckets):
                topics = [bucket[0]] if maps else [t for t in level.topics if self._plan.part_of[t] == bucket[0]]
                here = pc.and_(
                    pc.is_in(mine.column("topic"), pa.array(topics, pa.string())),
                    pc.equal(mine.column("partition"), pa.scalar(bucket[1], pa.int32())),
                )
                outputs = self._step(batch, list(level.first) if maps else [bucket[0]], bucket, mine.filter(here))
                results += [each for each in outputs if not each.repartition]
                inner = [each for each in outputs if each.repartition]
                if inner:
                    written.append(pa.Table.from_batches(
                        [made(inner, self._plan, self._repartitions, number * APART + at)]
                    ))  # fmt: skip
            rows = pa.concat_tables(written)
        assert not len(rows) or rows.column("level").unique().to_pylist() == [DONE]
        return results

    def _step(self, batch: int, parts: list[int], bucket: tuple[object, int], mine: pa.Table) -> tuple[Output, ...]:
        key = (parts[0], bucket[1])
        if key not in self._tasks:
            self._tasks[key] = Task(self._topology, sub_topologies=parts, loops_back=False, in_levels=True)
        self._tasks[key].feed_in_order(in_order(inputs(mine), by_time=False))
        return self._tasks[key].take(batch).outputs

    def _sources(self, mine: pa.Table) -> list[tuple[str, int]]:
        """The topics and partitions of records that are only mapped: Spark reads each one in a task."""
        return sorted(set(zip(mine.column("topic").to_pylist(), mine.column("partition").to_pylist(), strict=True)))

    def _read(self, records: Iterable[Input]) -> pa.Table:
        read = list(records)
        columns = {
            "topic": [each.place.topic for each in read],
            "partition": [each.place.partition for each in read],
            "offset": [each.place.offset for each in read],
            "producer": [each.place.partition for each in read],
            "timestamp": [each.timestamp for each in read],
            "key": [each.key for each in read],
            "value": [each.value for each in read],
            "headers": [None] * len(read),
            "level": [self._plan.level_of[each.place.topic] for each in read],
        }
        return pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
