"""Checks a batch against the state of its producer before it is appended, and notes it there afterwards."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch
from ottla.records.control import read_marker
from ottla.records.faults import CorruptRecords
from ottla.records.header import CONTROL_BIT, TRANSACTIONAL_BIT
from ottla.storage.producers.producers import Mark, Producers
from ottla.storage.segment.aborted import AbortedIndex
from ottla.storage.segment.scan import ScannedHeader
from ottla.storage.values import Origin


def check_producer(
    producers: Producers, batch: Batch, origin: Origin, guard: object | None, *, bumps: bool
) -> Mark | ErrorCode | None:
    """None where a producer's batch may be appended; the mark of its first try where it is in the log already.

    The first batch of a transaction brings its `guard`. `bumps` says of a marker that its producer's transactions each
    have an epoch of their own (transaction.version 2).
    """
    producer_id, epoch, attributes = batch.producer_id, batch.producer_epoch, batch.attributes
    if origin == 0:
        transactional = bool(attributes & TRANSACTIONAL_BIT)
        return producers.check(producer_id, epoch, batch.base_sequence, batch.last_sequence, transactional, guard)
    if attributes & CONTROL_BIT:
        marker = read_marker(batch)
        if marker is not None:
            return producers.check_marker(producer_id, epoch, marker, bumps=bumps)
    return producers.check_coordinator(producer_id, epoch, guard)


def note_producer(
    producers: Producers, aborted: AbortedIndex, batch: Batch, first_offset: int, last_offset: int, timestamp: int
) -> None:
    """A batch was appended to the segment that has this index of aborted transactions."""
    attributes = batch.attributes
    if attributes & CONTROL_BIT:
        marker = read_marker(batch)
        if marker is not None:
            ended = producers.end_transaction(batch.producer_id, batch.producer_epoch, last_offset, timestamp, marker)
            if ended is not None:
                aborted.add(ended)
        return
    producers.note(
        batch.producer_id,
        batch.producer_epoch,
        batch.last_sequence,
        first_offset,
        last_offset,
        timestamp,
        bool(attributes & TRANSACTIONAL_BIT),
    )


def note_header(producers: Producers, aborted: AbortedIndex, header: ScannedHeader, view: memoryview) -> None:
    """Like `note_producer`, for a batch from recovery or from the leader (rule B7); `view`: all of a control batch."""
    marker = None
    if header.is_control:
        try:
            marker = read_marker(Batch(view))
        except CorruptRecords:
            return  # its CRC holds, so the leader wrote it so: a control record we do not know
    ended = producers.note_header(header, marker)
    if ended is not None:
        aborted.add(ended)
