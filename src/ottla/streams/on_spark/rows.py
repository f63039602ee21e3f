"""Records between the levels, as rows of Arrow: those to handle in their order, and those that a task made."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.arrow import HEADERS
from ottla.spark.partitions import murmur2
from ottla.streams.engine.task import Output
from ottla.streams.errors import TopologyError
from ottla.streams.on_spark.plan import DONE, Plan
from ottla.streams.values import Headers, Input, Place

COLUMNS = (
    "topic string, partition int, offset bigint, producer int, timestamp bigint, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>, level int"
)
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("producer", pa.int32()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("level", pa.int32()),
    ]
)
Number = np.ndarray[Any, np.dtype[np.int32]]


def inputs(rows: pa.Table) -> Iterator[tuple[int, Input]]:
    """The producer and the record of each row, those of one producer and topic one behind the other."""
    ordered = rows.sort_by([("topic", "ascending"), ("producer", "ascending"), ("offset", "ascending")])
    for batch in ordered.to_batches():
        headers = _read_headers(batch.column("headers"))
        names = ("topic", "producer", "partition", "offset", "key", "value", "timestamp")
        columns = [batch.column(name).to_pylist() for name in names]
        for topic, producer, partition, offset, key, value, time, named in zip(*columns, headers, strict=True):
            yield producer, Input(Place(topic, partition, offset), key, value, time, named)


def in_order(records: Iterable[tuple[int, Input]], *, by_time: bool) -> Iterable[Input]:
    """Records as a task of Kafka takes them: each producer's in their order, and the earliest first record is next.

    With `by_time` the timestamps alone decide, so that no record is late by others of its batch.
    """
    queues: dict[tuple[str, int], list[Input]] = {}
    for producer, record in records:
        queues.setdefault((record.place.topic, producer), []).append(record)
    if by_time:
        everything = [record for _, queue in sorted(queues.items()) for record in queue]
        return sorted(everything, key=lambda record: record.timestamp)
    if len(queues) == 1:
        return next(iter(queues.values()))
    return _merged(queues)


def _merged(queues: Mapping[tuple[str, int], Sequence[Input]]) -> Iterator[Input]:
    heads = [(queue[0].timestamp, place, 0) for place, queue in queues.items()]
    heapq.heapify(heads)
    while heads:
        _, place, at = heads[0]
        queue = queues[place]
        yield queue[at]
        if at + 1 < len(queue):
            heapq.heapreplace(heads, (queue[at + 1].timestamp, place, at + 1))
        else:
            heapq.heappop(heads)


def made(outputs: Sequence[Output], plan: Plan, repartitions: Mapping[str, int], producer: int) -> pa.RecordBatch:
    """Results of a task as rows: those of repartition topics with the level and partition where they are handled.

    Others have the partition that a partitioner chose, or null.
    """
    rows = len(outputs)
    inner = [output.repartition for output in outputs]
    levels = [plan.level_of[output.topic] if mine else DONE for output, mine in zip(outputs, inner, strict=True)]
    counts = np.array([repartitions[o.topic] if mine else 1 for o, mine in zip(outputs, inner, strict=True)], np.int32)
    keys = pa.array([output.key for output in outputs], pa.binary())
    chosen = pa.array([output.partition for output in outputs], pa.int32())
    placed = pa.array(_partitions(keys, counts, producer), pa.int32())
    return pa.RecordBatch.from_arrays(
        [
            pa.array([output.topic for output in outputs], pa.string()),
            pc.if_else(pa.array(inner, pa.bool_()), placed, chosen),
            pa.array(np.arange(rows, dtype=np.int64)),
            pa.array(np.full(rows, producer, dtype=np.int32)),
            pa.array([output.timestamp for output in outputs], pa.int64()),
            keys,
            pa.array([output.value for output in outputs], pa.binary()),
            _written_headers([output.headers for output in outputs]),
            pa.array(levels, pa.int32()),
        ],
        schema=SCHEMA,
    )


def check_places(rows: pa.Table, plan: Plan, bucket: tuple[int, int]) -> None:
    """TopologyError for a record that is not of this task: of a partition that was added after the run began."""
    for topic in rows.column("topic").unique().to_pylist():
        mine = rows.filter(pc.equal(rows.column("topic"), pa.scalar(topic)))
        for partition in mine.column("partition").unique().to_pylist():
            if (plan.part_of[topic], partition) != bucket:
                raise TopologyError(
                    f"partition {partition} of {topic} is new, and the application has {plan.partitions[topic]} tasks "
                    "for the topic: more partitions need a new application id, or a reset"
                )


def waiting(rows: pa.Table, level: int) -> pa.Table:
    """The rows of later levels, and results, in an order that does not depend on how they were shuffled."""
    left = rows.filter(pc.not_equal(rows.column("level"), pa.scalar(level, pa.int32())))
    return left.sort_by([("topic", "ascending"), ("producer", "ascending"), ("offset", "ascending")])


def _partitions(keys: pa.Array, counts: Number, producer: int) -> Number:
    """Kafka's partition of each key; records without a key stay together, by who made them."""
    if not len(keys):
        return np.zeros(0, dtype=np.int32)
    hashed = ((murmur2(keys) & np.uint32(0x7FFFFFFF)) % counts.astype(np.uint32)).astype(np.int32)
    if keys.null_count:
        missing = keys.is_null().to_numpy(zero_copy_only=False)
        hashed[missing] = producer % counts[missing]
    found: Number = hashed
    return found


def _read_headers(column: pa.Array) -> Iterable[Headers]:
    if column.null_count == len(column) or not len(column.values):
        return [()] * len(column)
    return [tuple((each["key"], each["value"]) for each in row or ()) for row in column.to_pylist()]


def _written_headers(headers: Sequence[Headers]) -> pa.Array:
    """Lists, and empty ones for no headers: for a list that is null Spark looks at all before it in its batch."""
    if not any(headers):
        nothing = pa.array([], HEADERS.value_type)
        return pa.ListArray.from_arrays(pa.array(np.zeros(len(headers) + 1, dtype=np.int32)), nothing, type=HEADERS)
    return pa.array([[{"key": k, "value": v} for k, v in row] for row in headers], HEADERS)
