"""Records as Python objects: for consoles, coordinators and compaction; Spark takes columns instead."""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.seams import Buffer
from ottla.records import compiled
from ottla.records.batch import Batch, iterate_batches
from ottla.records.compression import STORED_LIMIT
from ottla.records.faults import CorruptRecords, RecordFault

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record; null keys and values are None. A header name that is no UTF-8 comes with replacement characters."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def read_records(batch: Batch, limit_bytes: int = STORED_LIMIT) -> list[Record]:
    """All records of a batch, control batches included; CorruptRecords where they do not parse."""
    append_time = batch.max_timestamp if batch.is_append_time else None
    payload = batch.records_bytes(limit_bytes)
    records, fault, index = compiled.read(
        Record, payload, batch.records_count, batch.base_offset, batch.base_timestamp, append_time
    )
    if fault:
        what = RecordFault(fault)
        raise CorruptRecords(f"{what.sentence} (record {index} of the batch at {batch.base_offset})", what.error)
    return records


def read_run(view: Buffer, limit_bytes: int = STORED_LIMIT) -> list[Record]:
    """The records of all whole batches in `view`, control batches left out."""
    records: list[Record] = []
    for batch in iterate_batches(view):
        if not batch.is_control:
            records += read_records(batch, limit_bytes)
    return records
