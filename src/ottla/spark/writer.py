"""Rows into topics, on the executors: Arrow columns become batches, sent until all in-sync replicas have them.

Comes from sink.py. Here at-least-once: a task or micro-batch that Spark repeats is written again. Within an attempt the
producer is idempotent, so that a request which had to be repeated is not. once.py uses the same steps in transactions.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.blocking.cluster import Cluster
from ottla.client.errors import refused
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Buffer
from ottla.records.columns import EncodedBatch, TimeUnit, encode_columns
from ottla.records.compression import Codec
from ottla.rows.arrow import HEADERS, binary_column, header_column, indices, with_plain_types
from ottla.rows.connections import cluster
from ottla.spark.options import SinkOptions
from ottla.spark.partitions import choose, spread_rows
from ottla.spark.sender import RowSender, given_back, taken
from ottla.spark.sink import WrittenRows
from ottla.spark.written_values import written

VARIABLE = frozenset({"topic", "key", "value", "headers"})
"""The columns whose values differ in length."""
_fitting: dict[str, int] = {}
"""The largest size of batches by topic, where one of `kafka.batch.size` was too large for it."""


def write_rows(options: SinkOptions, batches: Iterator[pa.RecordBatch], *, patient: bool = False) -> WrittenRows:
    """Write all rows; returns when they are on every in-sync replica. `patient`: as `connections.cluster`."""
    where = cluster(options.kafka, patient=patient)
    sender = taken(where, options.kafka)
    rows = sent = 0
    for batch in as_written(options, batches):
        sent += write_batch_of_rows(where, sender, options, batch)
        rows += batch.num_rows
    given_back(sender)
    return WrittenRows(rows, sent)


def as_written(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches that have rows, of types that the encoder knows, typed values as payloads."""
    names = VARIABLE if options.topic is None else VARIABLE - {"topic"}
    for batch in batches:
        if batch.num_rows:
            plain = with_plain_types(batch, names)
            yield plain if options.written_by is None else written(plain, options.written_by)


def write_batch_of_rows(where: Cluster, sender: RowSender, options: SinkOptions, batch: pa.RecordBatch) -> int:
    """Send the rows of one Arrow batch; return the number of record batches."""
    parts = list(_by_topic(options, batch))
    _look_at(where, sender, [topic for topic, _ in parts])
    return sum(_write_topic(where, sender, options, topic, part) for topic, part in parts)


def _look_at(where: Cluster, sender: RowSender, topics: list[str]) -> None:
    """Ask for the partitions of topics that are new to this task: others may have been added since the task before."""
    if new := [topic for topic in topics if topic not in sender.seen]:
        where.refresh(new, create=True)
        sender.seen.update(new)


def _by_topic(options: SinkOptions, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    if options.topic is not None:
        yield options.topic, batch
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ValueError("null topic present in the data. Use the topic option for setting a default topic.")
    names = sorted(topics.unique().to_pylist())
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name))


def _write_topic(where: Cluster, sender: RowSender, options: SinkOptions, topic: str, batch: pa.RecordBatch) -> int:
    where.run(where.plan.ensure([topic], create=True))
    count = len(where.topic(topic).partitions)
    size = options.kafka.batch_size
    spread, sender.turn = spread_rows(batch.num_rows, batch.nbytes / batch.num_rows, count, sender.turn, size)
    key, given = _column(batch, "key"), _column(batch, "partition")
    chosen = choose(key, given, batch.num_rows, count, spread)
    order = np.argsort(chosen, kind="stable")
    if any(column.offset for column in batch.columns) or not bool((chosen[1:] >= chosen[:-1]).all()):
        batch = batch.take(indices(order))
    edges = np.searchsorted(chosen[order], np.arange(count + 1)).tolist()
    spans = {
        TopicPartition(topic, partition): span
        for partition, span in enumerate(itertools.pairwise(edges))
        if span[0] < span[1]
    }
    sender.join(spans)
    return sum(_write_partition(sender, options, target, batch, *span) for target, span in spans.items())


def _write_partition(
    sender: RowSender, options: SinkOptions, target: TopicPartition, batch: pa.RecordBatch, start: int, end: int
) -> int:
    """Send rows in order. A batch that is too large for the topic was not appended: it goes again in smaller ones."""
    sent = 0
    while start < end:
        most = min(options.kafka.batch_size, _fitting.get(target.topic, options.kafka.batch_size))
        for each in _encoded(sender, options, target, batch, start, end, most):
            try:
                sender.send(target, each)
            except ApiError as fault:
                if fault.code is not ErrorCode.MESSAGE_TOO_LARGE:
                    raise
                if each.rows == 1:
                    raise _too_large(target, len(each.batch)) from fault
                _fitting[target.topic] = min(most, len(each.batch)) // 2
                break
            start += each.rows
            sent += 1
    return sent


def _encoded(
    sender: RowSender,
    options: SinkOptions,
    target: TopicPartition,
    batch: pa.RecordBatch,
    start: int,
    end: int,
    most: int,
) -> Iterator[EncodedBatch]:
    key, value, headers = (_column(batch, name) for name in ("key", "value", "headers"))
    return encode_columns(
        end,
        start=start,
        key=None if key is None else binary_column(key),
        value=None if value is None else binary_column(value),
        timestamp=_times(batch) if options.timed else None,
        unit=TimeUnit.MICROS,
        headers=None if headers is None else header_column(headers.cast(HEADERS)),
        default_timestamp_ms=int(time.time() * 1000),
        max_bytes=most,
        codec=Codec[options.kafka.compression.upper()],
        producer_id=sender.identity.producer_id,
        producer_epoch=sender.identity.producer_epoch,
        base_sequence=sender.next_sequence(target),
        is_transactional=sender.transactional,
    )


def _times(batch: pa.RecordBatch) -> tuple[Buffer | None, Buffer]:
    """Validity and microseconds of the column timestamp."""
    validity, times = batch.column("timestamp").buffers()
    return validity, times


def _too_large(target: TopicPartition, size: int) -> ApiError:
    return refused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a row of topic {target.topic!r}",
        f"it makes a batch of {size} bytes, more than the topic's max.message.bytes allows",
    )


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    return batch.column(name) if name in batch.schema.names else None
