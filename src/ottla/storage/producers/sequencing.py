"""Checks a batch against the state of its producer before it is appended, and notes it there afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch
from ottla.records.control import read_marker
from ottla.records.faults import CorruptRecords
from ottla.storage.segment.scan import CONTROL, TRANSACTIONAL, Header
from ottla.storage.values import Appended, Origin

if TYPE_CHECKING:
    from ottla.storage.log import Log


def check_producer(
    log: Log, batch: Batch, origin: Origin, guard: object | None, *, bumps: bool
) -> Appended | ErrorCode | None:
    """None where a producer's batch may be appended; where it is in the log already, since when.

    The first batch of a transaction brings its `guard`. `bumps` says of a marker that its producer's transactions each
    have an epoch of their own (transaction.version 2).
    """
    producers, producer_id, epoch, attributes = log.producers, batch.producer_id, batch.producer_epoch, batch.attributes
    if origin == 0:
        verdict = producers.check(
            producer_id, epoch, batch.base_sequence, batch.last_sequence, bool(attributes & TRANSACTIONAL), guard
        )
        if verdict is None or isinstance(verdict, ErrorCode):
            return verdict
        return Appended(
            verdict.first_offset,
            verdict.last_offset + 1,
            log.log_start_offset,
            True,
            verdict.timestamp if log.append_time else -1,
        )
    log.marker = read_marker(batch) if attributes & CONTROL else None
    if log.marker is not None:
        return producers.check_marker(producer_id, epoch, log.marker, bumps=bumps)
    return producers.check_coordinator(producer_id, epoch, guard)


def note_producer(log: Log, batch: Batch, first_offset: int, last_offset: int, timestamp: int) -> None:
    attributes = batch.attributes
    if attributes & CONTROL:
        if log.marker is not None:
            entry = log.producers.end_transaction(
                batch.producer_id, batch.producer_epoch, last_offset, timestamp, log.marker
            )
            if entry is not None:
                log.active.aborted.add(entry)
        return
    log.producers.note(
        batch.producer_id,
        batch.producer_epoch,
        batch.last_sequence,
        first_offset,
        last_offset,
        timestamp,
        bool(attributes & TRANSACTIONAL),
    )


def note_header(log: Log, header: Header, view: memoryview) -> None:
    """Producer state follows from the batches, on followers and in recovery too (rule B7)."""
    marker = None
    if header.is_control:
        try:
            marker = read_marker(Batch(view))
        except CorruptRecords:
            return  # its CRC holds, so the leader wrote it so: a control record we do not know
    entry = log.producers.note_header(header, marker)
    if entry is not None:
        segment = log.segments[max(0, log.segment_at(header.base_offset))]
        segment.aborted.add(entry)
