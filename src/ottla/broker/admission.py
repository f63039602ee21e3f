"""May this batch enter this topic? What a producer sent, checked as Apache Kafka checks it, before anything is written.

broker/partition.py comes here with a view into the frame; the batch returned goes to the log as it came, unless the
topic wants another codec or another timestamp in the header.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER_SIZE,
    Batch,
    RecordError,
    check_batch,
    produced_batch,
    scan_records,
    seal,
)
from ottla.records.compression import Codec, compress

if TYPE_CHECKING:
    from ottla.config.topic import TopicConfig

_ATTRIBUTES = Struct(">h")
_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class Refusal:
    """Why a batch was refused, record by record where it is the records' fault (Produce version 8 on)."""

    __slots__ = ("error", "message", "record_errors")

    def __init__(self, error: ErrorCode, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        self.error = error
        self.message = message
        self.record_errors = record_errors


def admit(records: memoryview | None, config: TopicConfig, wall_ms: int) -> Batch | ErrorCode | Refusal:
    """The one batch that `records` must be, ready for the log."""
    batch = produced_batch(records)
    if batch.__class__ is not Batch:
        return batch
    error = check_batch(batch, max_bytes=config.max_message_bytes)
    if error:
        return error
    if batch.is_transactional:
        return Refusal(ErrorCode.INVALID_TXN_STATE, "This broker has no transactions yet.")
    append_time = config.message_timestamp_type == "LogAppendTime"
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    scan = scan_records(
        batch,
        need_keys="compact" in config.cleanup_policy,
        earliest_ms=wall_ms - before,
        latest_ms=wall_ms + after,
        append_time=append_time,
    )
    if scan.error:
        return Refusal(scan.error, scan.message, scan.record_errors)
    wanted = config.compression_type
    if wanted != "producer" and _CODECS[wanted] != batch.compression:
        batch = _recompressed(batch, _CODECS[wanted], config)
    if not append_time and (scan.max_timestamp != batch.max_timestamp or batch.is_append_time):
        return batch.stamped(max_timestamp=scan.max_timestamp, append_time=False)
    return batch


def _recompressed(batch: Batch, codec: Codec, config: TopicConfig) -> Batch:
    """The same records in the codec that `compression.type` asks for."""
    level = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }.get(codec)
    copy = bytearray(batch.view[:HEADER_SIZE])
    copy += compress(codec, batch.records_bytes(), level)
    _ATTRIBUTES.pack_into(copy, CRC_START, batch.attributes & ~COMPRESSION_MASK | codec)
    seal(copy)
    return Batch(copy)
