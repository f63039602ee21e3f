"""LogAppendTime: the broker's own time in a batch's header, with the CRC that follows from it. Comes from log.py."""

from __future__ import annotations

import struct

from ottla.kernel.seams import Buffer
from ottla.records.batch import Batch
from ottla.records.checksum import crc32c
from ottla.storage.segment.scan import HEADER_BYTES, LOG_APPEND_TIME, OVERHEAD_BYTES

_PLACE = struct.Struct(">qii")
_TAIL = struct.Struct(">hiqqqhii")
_CRC = struct.Struct(">I")


def stamped_parts(batch: Batch, base_offset: int, leader_epoch: int, wall_ms: int) -> tuple[Buffer, ...]:
    """The batch as parts to write: a new header with the largest timestamp and its type set, then the records.

    They are not copied, but the CRC has to run over them once more.
    """
    payload = batch.view[HEADER_BYTES:]
    tail = _TAIL.pack(
        batch.attributes | LOG_APPEND_TIME,
        batch.last_offset_delta,
        batch.base_timestamp,
        wall_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.records_count,
    )
    crc = _CRC.pack(crc32c(payload, crc32c(tail)))
    place = _PLACE.pack(base_offset, batch.size - OVERHEAD_BYTES, leader_epoch)
    return place + batch.view[16:17] + crc + tail, payload
