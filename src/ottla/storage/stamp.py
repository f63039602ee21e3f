"""LogAppendTime: the broker's own time in a batch's header, with the CRC that follows from it. Comes from log.py."""

from __future__ import annotations

import struct

from ottla.kernel.seams import Buffer
from ottla.records.batch import Batch
from ottla.records.checksum import crc32c
from ottla.records.header import COVERED, CRC_AT, HEADER_SIZE, MAGIC_AT, PLACE, SIZE_OVERHEAD, TIMESTAMP_TYPE_BIT

_CRC = struct.Struct(">I")


def stamped_parts(batch: Batch, base_offset: int, leader_epoch: int, wall_ms: int) -> tuple[Buffer, ...]:
    """The batch as parts to write: a new header with the largest timestamp and its type set, then the records.

    The records are not copied, but the CRC is computed over them once more.
    """
    payload = batch.view[HEADER_SIZE:]
    tail = COVERED.pack(
        batch.attributes | TIMESTAMP_TYPE_BIT,
        batch.last_offset_delta,
        batch.base_timestamp,
        wall_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.records_count,
    )
    crc = _CRC.pack(crc32c(payload, crc32c(tail)))
    place = PLACE.pack(base_offset, batch.size - SIZE_OVERHEAD, leader_epoch)
    return place + batch.view[MAGIC_AT:CRC_AT] + crc + tail, payload
