"""Rows into topics, on the executors: Arrow columns become batches, sent until all in-sync replicas have them.

Comes from sink.py. At-least-once: a task or micro-batch that Spark repeats is written again. Within an attempt the
producer is idempotent, so that a request which had to be repeated is not.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.blocking import Cluster
from ottla.client.model import ProducerIdentity
from ottla.kernel.ids import TopicPartition
from ottla.records.columns import encode_columns
from ottla.records.compression import Codec
from ottla.spark.arrow import HEADERS, binary_column, header_column, indices
from ottla.spark.connections import cluster
from ottla.spark.options import SinkOptions
from ottla.spark.partitions import choose, spread_rows
from ottla.spark.sink import Written
from ottla.spark.written_values import written


@dataclass(slots=True)
class _Producer:
    """A producer id and where its sequences stand, kept by the worker process for all its tasks."""

    identity: ProducerIdentity
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    turn: int = 0


_producers: dict[tuple[int, str], _Producer] = {}


def write_rows(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Write all rows; returns when they are on every in-sync replica."""
    where = cluster(options.kafka)
    mine = (os.getpid(), options.kafka.bootstrap_servers)
    # Taken out while in use: after a failure nobody knows where the sequences stand, and the next task takes a new id.
    producer = _producers.pop(mine, None) or _Producer(where.init_producer_id(), turn=random.randrange(1 << 16))
    rows = sent = 0
    for given in batches:
        batch = given if options.written_by is None else written(given, options.written_by)
        for topic, part in _by_topic(options, batch):
            sent += _write_topic(where, producer, options, topic, part)
            rows += part.num_rows
    _producers[mine] = producer
    return Written(rows, sent)


def _by_topic(options: SinkOptions, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    if options.topic is not None:
        yield options.topic, batch
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ValueError("null topic present in the data. Use the topic option for setting a default topic.")
    names = sorted(topics.unique().to_pylist())
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name))


def _write_topic(where: Cluster, producer: _Producer, options: SinkOptions, topic: str, batch: pa.RecordBatch) -> int:
    where.run(where.plan.ensure([topic], create=True))
    count = len(where.topic(topic).partitions)
    size = options.kafka.batch_size
    spread, producer.turn = spread_rows(batch.num_rows, batch.nbytes / batch.num_rows, count, producer.turn, size)
    key, given = _column(batch, "key"), _column(batch, "partition")
    chosen = choose(key, given, batch.num_rows, count, spread)
    order = np.argsort(chosen, kind="stable")
    if any(column.offset for column in batch.columns) or not bool((chosen[1:] >= chosen[:-1]).all()):
        batch = batch.take(indices(order))
    edges = np.searchsorted(chosen[order], np.arange(count + 1)).tolist()
    sent = 0
    for partition, (start, end) in enumerate(itertools.pairwise(edges)):
        if start < end:
            sent += _write_partition(where, producer, options, TopicPartition(topic, partition), batch, start, end)
    return sent


def _write_partition(
    where: Cluster,
    producer: _Producer,
    options: SinkOptions,
    target: TopicPartition,
    batch: pa.RecordBatch,
    start: int,
    end: int,
) -> int:
    key, value, headers = (_column(batch, name) for name in ("key", "value", "headers"))
    encoded = encode_columns(
        end,
        start=start,
        key=None if key is None else binary_column(key),
        value=None if value is None else binary_column(value),
        headers=None if headers is None else header_column(headers.cast(HEADERS)),
        default_timestamp_ms=int(time.time() * 1000),
        max_bytes=options.kafka.batch_size,
        codec=Codec[options.kafka.compression.upper()],
        producer_id=producer.identity.producer_id,
        producer_epoch=producer.identity.producer_epoch,
        base_sequence=producer.sequences.get(target, 0),
    )
    sent = 0
    for each in encoded:
        where.produce(
            target.topic,
            target.partition,
            each.batch,
            delivery_timeout_ms=options.kafka.delivery_timeout_ms,
            request_timeout_ms=options.kafka.request_timeout_ms,
        )
        producer.sequences[target] = (each.base_sequence + each.rows) & 0x7FFFFFFF
        sent += 1
    return sent


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    return batch.column(name) if name in batch.schema.names else None
