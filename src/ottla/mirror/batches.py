"""Batches of a source as a mirror produces them: the header rewritten, the CRC renewed, the records left as they are.

Only a batch whose records cannot be taken as they stand is built anew: one that compaction has thinned or given a
delete horizon, one that the source's broker has stamped with its own time, and one that begins before the place to
copy from.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.kernel.seams import Buffer
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.checksum import crc32c
from ottla.records.header import (
    COVERED,
    CRC_AT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    PLACE,
    SIZE_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from ottla.records.reader import read_records

SEQUENCES = 2**31
_REBUILT = DELETE_HORIZON_BIT | TIMESTAMP_TYPE_BIT
_NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class SourceRun:
    """Records at consecutive offsets of the source."""

    upstream: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class MirrorBatch:
    """A batch on its way: its runs of source offsets, its number of records, and the source's offset behind it."""

    batch: bytes | bytearray
    runs: tuple[SourceRun, ...]
    count: int
    sequence: int
    next_offset: int
    is_rebuilt: bool
    timestamp_ms: int
    """The greatest timestamp of its records."""

    @property
    def payload_crc(self) -> int:
        """The CRC of the records as they are compressed."""
        return crc32c(memoryview(self.batch)[HEADER_SIZE:])


def outgoing(batch: Batch, start: int, *, producer_id: int, sequence: int) -> MirrorBatch | None:
    """A batch as it is produced, from the source's offset `start` on; None if it holds no record from there on."""
    whole = batch.records_count == batch.last_offset_delta + 1 and batch.base_offset >= start
    if not whole or batch.attributes & _REBUILT:
        return _rebuilt(batch, start, producer_id, sequence)
    runs = (SourceRun(batch.base_offset, batch.records_count),)
    copy = rewritten(batch, producer_id, sequence)
    return MirrorBatch(copy, runs, batch.records_count, sequence, batch.next_offset, False, batch.max_timestamp)


def rewritten(batch: Batch, producer_id: int, sequence: int) -> bytearray:
    """A copy under another producer id and sequence, at no offset, in no epoch and in no transaction."""
    copy = bytearray(batch.view)
    PLACE.pack_into(copy, 0, 0, batch.size - SIZE_OVERHEAD, _NO_EPOCH)
    COVERED.pack_into(
        copy,
        CRC_START,
        batch.attributes & ~TRANSACTIONAL_BIT,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        producer_id,
        0,
        sequence,
        batch.records_count,
    )
    copy[CRC_AT:CRC_START] = crc32c(memoryview(copy)[CRC_START:]).to_bytes(4, "big")
    return copy


def _rebuilt(batch: Batch, start: int, producer_id: int, sequence: int) -> MirrorBatch | None:
    records = [record for record in read_records(batch) if record.offset >= start]
    if not records:
        return None
    copy = build_batch(
        records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, codec=batch.compression
    )
    runs = _runs([record.offset for record in records])
    return MirrorBatch(copy, runs, len(records), sequence, batch.next_offset, True, batch.max_timestamp)


def _runs(offsets: list[int]) -> tuple[SourceRun, ...]:
    runs: list[SourceRun] = []
    for offset in offsets:
        if runs and offset == runs[-1].upstream + runs[-1].count:
            runs[-1] = SourceRun(runs[-1].upstream, runs[-1].count + 1)
        else:
            runs.append(SourceRun(offset, 1))
    return tuple(runs)


@dataclass(frozen=True, slots=True)
class Landed:
    """A batch of this mirror as it stands in the target's log."""

    base_offset: int
    count: int
    sequence: int
    payload_crc: int | None
    """None where compaction has rewritten the batch."""


def landed(batch: Batch) -> Landed:
    """The batch of a target's log as the lane compares it with what it would copy."""
    count = batch.last_offset_delta + 1
    is_whole = batch.records_count == count and not batch.attributes & DELETE_HORIZON_BIT
    payload: Buffer = batch.payload
    return Landed(batch.base_offset, count, batch.base_sequence, crc32c(payload) if is_whole else None)
