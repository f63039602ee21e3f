"""Takes the batches of a coordinator's log into its shard: entries, and the ends of transactions that wrote some.

shard_runner.py reads the log and decides when to pause. A log is mostly offsets that later ones have replaced: of the
batches that are read together, those are passed over as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

from ottla.records.batch import Batch
from ottla.records.control import Marker, read_marker
from ottla.records.faults import CorruptRecords
from ottla.records.header import COMPRESSION_MASK
from ottla.records.reader import Record, read_records
from ottla.schema.codec import MalformedMessage

_RECORDS_PER_STEP = 50

log = logging.getLogger("ottla.coordinators")


class ReplayTarget(Protocol):
    """The part of a shard that a log is replayed into."""

    def decode(self, key: bytes, value: bytes | None) -> Any | None: ...

    def is_replaced(self, key: bytes) -> bool:
        """True if a value of this key has no effect once a later one is taken in."""
        ...

    def apply(self, entry: Any, record_offset: int, producer: int = -1) -> None: ...

    def apply_marker(self, producer: int, *, committed: bool) -> None: ...


def replay(shard: ReplayTarget, batches: Iterable[Batch], topic: str, offset: int) -> Generator[int, None, int]:
    """Take in the batches that follow `offset`, and return the offset after them.

    Yields after every few records, so that the caller may pause. The shard comes out as from the same log compacted:
    as if each batch had been taken in by `replay_batch`, but for groups of which nothing is left, and for what stands
    before a record that cannot be decoded.
    """
    run: list[Batch | list[Record]] = []
    """The records themselves where some may be passed over: outside transactions, not compressed."""
    latest: dict[bytes | None, int] = {}
    for batch in batches:
        offset = batch.next_offset
        if batch.is_control or batch.is_transactional or batch.attributes & COMPRESSION_MASK:
            run.append(batch)
        else:
            plain = read_records(batch)
            run.append(plain)
            for record in plain:
                latest[record.key] = record.offset
        if len(run) % _RECORDS_PER_STEP == 0:
            yield offset
    taken = 0
    for each in run:
        if isinstance(each, Batch):
            yield from replay_batch(shard, each, topic)
            continue
        for record in each:
            key = record.key or b""
            if record.value is None or latest[record.key] == record.offset or not shard.is_replaced(key):
                _replay_record(shard, record, -1, topic)
                taken += 1
                if taken % _RECORDS_PER_STEP == 0:
                    yield offset
    return offset


def replay_batch(shard: ReplayTarget, batch: Batch, topic: str) -> Iterator[int]:
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


def _replay_record(shard: ReplayTarget, record: Record, producer: int, topic: str) -> None:
    """Take in a record. An unknown one, perhaps written by hand, is passed over: the others are served."""
    try:
        entry = shard.decode(record.key or b"", record.value)
    except (MalformedMessage, CorruptRecords, UnicodeDecodeError) as fault:
        log.warning("%s: skipped the record at %d: %s", topic, record.offset, fault)
        return
    if entry is not None:
        shard.apply(entry, record.offset, producer)
