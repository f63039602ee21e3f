"""Takes the batches of a coordinator's log into its shard: entries, and the ends of transactions that wrote some.

shard_runner.py reads the log and decides when to pause.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from ottla.records.batch import Batch
from ottla.records.control import Marker, read_marker
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record, read_records
from ottla.schema.codec import MalformedMessage

_RECORDS_PER_STEP = 50

log = logging.getLogger("ottla.coordinators")


class Replayed(Protocol):
    """The part of a shard that a log is replayed into."""

    def decode(self, key: bytes, value: bytes | None) -> Any | None: ...

    def apply(self, entry: Any, record_offset: int, producer: int = -1) -> None: ...

    def apply_marker(self, producer: int, *, committed: bool) -> None: ...


def replay_batch(shard: Replayed, batch: Batch, topic: str) -> Iterator[int]:
    """Take in one batch; yield after every few records, so that the caller may pause."""
    producer = batch.producer_id if batch.is_transactional else -1
    if batch.is_control:
        marker = read_marker(batch)
        if marker is not None:
            shard.apply_marker(batch.producer_id, committed=marker.marker is Marker.COMMIT)
        yield batch.next_offset
        return
    records = iter(read_records(batch))
    while some := list(islice(records, _RECORDS_PER_STEP)):
        for record in some:
            _replay_record(shard, record, producer, topic)
        yield batch.next_offset


def _replay_record(shard: Replayed, record: Record, producer: int, topic: str) -> None:
    """Take in a record. An unknown one, perhaps written by hand, is passed over: the others are served."""
    try:
        entry = shard.decode(record.key or b"", record.value)
    except (MalformedMessage, CorruptRecords, UnicodeDecodeError) as fault:
        log.warning("%s: skipped the record at %d: %s", topic, record.offset, fault)
        return
    if entry is not None:
        shard.apply(entry, record.offset, producer)
