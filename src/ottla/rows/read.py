"""Reads ranges of offsets as Arrow batches, over connections that stay open, by the compiled decoder of columns."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import Struct

import numpy as np
import pyarrow as pa

from ottla.client.blocking.cluster import Cluster
from ottla.client.errors import RequestTimedOut
from ottla.client.model import EARLIEST, LATEST, Fetched, IsolationLevel
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.records.columns import TimeUnit, decode_columns
from ottla.records.header import BOUNDS, CONTROL_BIT, COUNT_AT, CRC_START, INT32, SIZE_OVERHEAD
from ottla.rows.arrow import record_batch, row_schema
from ottla.rows.connections import cluster
from ottla.rows.kafka_settings import KafkaSettings
from ottla.rows.plan import DataLoss, OffsetRange
from ottla.rows.selection import COLUMNS, HEADERS

log = logging.getLogger("ottla.spark")

MOST_BYTES = 32 << 20
"""The bytes of keys and values in one record batch; a compressed piece may hold much more."""
LEAST_BYTES = 256 << 10
"""The bytes that a fetch asks for at least; a larger batch comes whole all the same."""
_bytes_each: dict[str, float] = {}
"""The bytes of a record by topic, as this process last saw them."""
_REST = Struct(">hi")
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID})


@dataclass(frozen=True, slots=True)
class DecodedRange:
    """Rows of a range and, where counted, the number of records in the batches' headers."""

    batch: pa.RecordBatch
    records: int = 0
    aborted: int = 0
    markers: int = 0


def read_decoded(
    span: OffsetRange,
    kafka: KafkaSettings,
    *,
    columns: tuple[str, ...] = (*COLUMNS, HEADERS),
    poll_timeout_ms: int = 120_000,
    fail_on_data_loss: bool = True,
    counted: bool = True,
) -> Iterator[DecodedRange]:
    """Every record of the range, a few megabytes at a time, in order of offsets."""
    schema = row_schema(columns)
    for left, piece in _pieces(span, kafka, poll_timeout_ms, fail_on_data_loss):
        aborted = [(each.producer_id, each.first_offset) for each in piece.aborted] if kafka.read_committed else []
        position, size = 0, len(piece.records)
        while position < size:
            decoded = decode_columns(
                piece.records,
                position=position,
                start_offset=left.start,
                end_offset=left.end,
                unit=TimeUnit.MICROS,
                headers=HEADERS in columns,
                aborted=aborted,
                check_crc=kafka.check_crcs,
                max_bytes=MOST_BYTES,
            )
            if decoded.position <= position:
                break
            batch = record_batch(decoded, span.topic, span.partition, schema)
            if counted:
                offsets = np.frombuffer(decoded.offset, dtype=np.int64)
                part = piece.records[position : decoded.position]
                yield _counted(batch, offsets, part, left, may_miss=bool(aborted))
            elif decoded.rows:
                yield DecodedRange(batch)
            position = decoded.position


def _pieces(
    span: OffsetRange, kafka: KafkaSettings, poll_timeout_ms: int, fail: bool
) -> Iterator[tuple[OffsetRange, Fetched]]:
    """The fetched bytes of a range, each piece with the part of the range that was left when it was asked for.

    A piece may begin with a batch from below that part: its records there were given already, or deleted. Records
    that are gone fail the task, or are left out where that is allowed.
    """
    where = cluster(kafka, patient=True)
    isolation = IsolationLevel.READ_COMMITTED if kafka.read_committed else IsolationLevel.READ_UNCOMMITTED
    position = span.start
    while position < span.end:
        try:
            _check_identity(where, span, poll_timeout_ms)
            for piece in where.fetch_range(
                span.topic,
                span.partition,
                position,
                span.end,
                max_bytes=_worth_fetching(span, position, kafka),
                isolation_level=isolation,
                timeout_ms=poll_timeout_ms,
            ):
                _check_identity(where, span, poll_timeout_ms)
                _bytes_each[span.topic] = len(piece.records) / max(1, piece.next_offset - position)
                left = replace(span, start=position)
                position = piece.next_offset
                yield left, piece
            return
        except RequestTimedOut as fault:
            reason = f"Cannot fetch record for offset {position} in {poll_timeout_ms} milliseconds"
            if fail or _still_has(where, span, isolation):
                raise TimeoutError(f"{span.topic_partition}: {reason}") from fault
            position = span.end
        except DataLoss as fault:
            if fail:
                raise
            reason, position = str(fault), span.end
        except ApiError as fault:
            if fault.code is not ErrorCode.OFFSET_OUT_OF_RANGE and fault.code not in _GONE:
                raise
            reason = (
                f"Could not read records in offset [{position}, {span.end}) for topic partition {span.topic_partition}"
            )
            if fail:
                raise DataLoss(f"{reason}: {fault}") from fault
            position = _next_kept(where, span, position) if fault.code is ErrorCode.OFFSET_OUT_OF_RANGE else span.end
        log.warning("%s: %s; going on, since failOnDataLoss is false", span.topic_partition, reason)


def _worth_fetching(span: OffsetRange, position: int, kafka: KafkaSettings) -> int:
    """The number of bytes to ask for: the expected size of the rest of the range, by the topic's records so far."""
    likely = (span.end - position) * _bytes_each.get(span.topic, 1024.0) * 1.2
    return min(kafka.fetch_max_bytes, max(LEAST_BYTES, int(likely)))


def _still_has(where: Cluster, span: OffsetRange, isolation: IsolationLevel) -> bool:
    """True if the log reaches to the end of the range: records that have not come in time are then not lost."""
    latest = where.list_offsets([span.topic_partition], LATEST, isolation)[span.topic_partition]
    return latest.offset >= span.end


def _next_kept(where: Cluster, span: OffsetRange, position: int) -> int:
    """The offset at which a range goes on after a gap that retention left."""
    earliest = where.list_offsets([span.topic_partition], EARLIEST)[span.topic_partition].offset
    return earliest if earliest > position else span.end


def _check_identity(where: Cluster, span: OffsetRange, timeout_ms: int) -> None:
    """Check that the topic is the planned one, and its leader at least as new (rule G3)."""
    metadata = where.plan.metadata
    if metadata.topic_id(span.topic) != span.topic_id or metadata.leader(span.topic, span.partition) is None:
        where.refresh([span.topic])
        where.topic(span.topic)
    if span.topic_id != NO_TOPIC_ID and metadata.topic_id(span.topic) != span.topic_id:
        raise DataLoss(f"Topic {span.topic} has been deleted and created again.")
    deadline = time.monotonic() + timeout_ms / 1000
    while metadata.leader_epoch(span.topic, span.partition) < span.leader_epoch:
        if time.monotonic() > deadline:
            raise RequestTimedOut(f"{span.topic_partition}: no leader in epoch {span.leader_epoch} or later")
        where.refresh([span.topic])


def _counted(
    batch: pa.RecordBatch, offsets: np.ndarray, view: memoryview, span: OffsetRange, *, may_miss: bool
) -> DecodedRange:
    """Compare the decoded rows with the batches' headers: fewer are legal only if transactions were aborted."""
    whole, markers, edges = _headers_say(view, span)
    in_edges = sum(int(np.searchsorted(offsets, end) - np.searchsorted(offsets, start)) for start, end in edges)
    records = whole + in_edges
    aborted = records - batch.num_rows
    if aborted and not (may_miss and aborted > 0):
        raise AssertionError(f"{span.topic_partition}: {batch.num_rows} rows decoded where headers say {records}")
    return DecodedRange(batch, records, aborted, markers)


def _headers_say(view: memoryview, span: OffsetRange) -> tuple[int, int, list[tuple[int, int]]]:
    """Records in the batches that lie wholly in the range, control records, and the batches across its ends."""
    position, records, markers = 0, 0, 0
    edges = []
    while position < len(view):
        base_offset, length = BOUNDS.unpack_from(view, position)
        attributes, last_delta = _REST.unpack_from(view, position + CRC_START)
        next_offset = base_offset + last_delta + 1
        if next_offset > span.start and base_offset < span.end:
            inside = base_offset >= span.start and next_offset <= span.end
            if attributes & CONTROL_BIT:
                markers += 1
            elif inside:
                records += INT32.unpack_from(view, position + COUNT_AT)[0]
            else:
                edges.append((base_offset, next_offset))
        position += length + SIZE_OVERHEAD
    return records, markers, edges
