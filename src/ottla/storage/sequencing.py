"""A batch that is appended here against the state of its producer, before the append and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch
from ottla.records.control import read_marker
from ottla.storage.scan import CONTROL, TRANSACTIONAL
from ottla.storage.values import Appended, Origin

if TYPE_CHECKING:
    from ottla.storage.log import Log


def check_producer(log: Log, batch: Batch, origin: Origin) -> Appended | ErrorCode | None:
    if origin == 0:
        verdict = log.producers.check(
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.last_sequence,
            bool(batch.attributes & TRANSACTIONAL),
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
    log.marker = read_marker(batch) if batch.attributes & CONTROL else None
    return log.producers.check_coordinator(batch.producer_id, batch.producer_epoch, log.marker)


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
