"""Checks a producer's batch against its topic, as Apache Kafka does, before anything is written.

Called by broker/replicas/partition.py with a view into the frame; the returned batch goes to the log unchanged, unless
the topic requires another codec or another timestamp in the header.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch, RecordError, check_batch, produced_batch, scan_records, seal
from ottla.records.checksum import crc32c
from ottla.records.compiled import scan
from ottla.records.compression import PRODUCED_LIMIT, Codec, compress
from ottla.records.header import COMPRESSION_MASK, CRC_START, HEADER_SIZE, MAGIC, TRANSACTIONAL_BIT

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


class RefusedBatch:
    """A refused batch and its error, with the faulty records if there are any (Produce version 8 on)."""

    __slots__ = ("error", "message", "record_errors")

    def __init__(self, error: ErrorCode, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        self.error = error
        self.message = message
        self.record_errors = record_errors


class Admission:
    """The checks that one topic's configuration demands; made anew when the configuration changes."""

    __slots__ = ("_after_ms", "_append_time", "_as_it_came", "_before_ms", "_config", "_max_bytes", "_need_keys")

    def __init__(self, config: TopicConfig) -> None:
        self._config = config
        self._max_bytes = config.max_message_bytes
        self._need_keys = "compact" in config.cleanup_policy
        self._append_time = config.message_timestamp_type == "LogAppendTime"
        self._before_ms = config.message_timestamp_before_max_ms
        self._after_ms = config.message_timestamp_after_max_ms
        self._as_it_came = config.compression_type == "producer" and not self._append_time

    def admit(self, records: memoryview | None, wall_ms: int) -> Batch | ErrorCode | RefusedBatch:
        """The single batch in `records`, ready for the log, or the refusal.

        The usual sound batch is recognized in one go (bench/hot_path.py); all others go to `_judge`, which finds their
        fault, and would accept this one too.
        """
        usual = self._usual(records, wall_ms, 0)
        return self._judge(records, wall_ms) if usual is None else usual

    def admit_transactional(self, records: memoryview | None, wall_ms: int) -> Batch | ErrorCode | RefusedBatch:
        """Like `admit`, for a request with a transactional id."""
        usual = self._usual(records, wall_ms, TRANSACTIONAL_BIT)
        if usual is not None and usual.producer_id >= 0:
            return usual
        batch = self._judge(records, wall_ms, transactional=True)
        if isinstance(batch, Batch) and batch.is_transactional and batch.producer_id < 0:
            return ErrorCode.INVALID_RECORD
        return batch

    def _usual(self, records: memoryview | None, wall_ms: int, attributes: int) -> Batch | None:
        """The batch if it is a usual one with these attributes (not compressed), and sound."""
        if records is not None and self._as_it_came and len(records) >= HEADER_SIZE:
            batch = Batch(records)
            count = batch.records_count
            if (
                batch.size == len(records)
                and batch.magic == MAGIC
                and batch.base_offset == 0
                and batch.size <= self._max_bytes
                and 0 < count == batch.last_offset_delta + 1
                and batch.attributes == attributes
                and (batch.producer_id < 0 or (batch.base_sequence >= 0 and batch.producer_epoch >= 0))
                and crc32c(records[CRC_START:]) == batch.crc
            ):
                fault, _, earliest, latest, _, keyless = scan(records[HEADER_SIZE:], count, batch.base_timestamp)
                if (
                    not fault
                    and latest == batch.max_timestamp
                    and earliest >= wall_ms - self._before_ms
                    and latest <= wall_ms + self._after_ms
                    and not (keyless and self._need_keys)
                ):
                    return batch
        return None

    def _judge(
        self, records: memoryview | None, wall_ms: int, *, transactional: bool = False
    ) -> Batch | ErrorCode | RefusedBatch:
        batch = produced_batch(records)
        if isinstance(batch, ErrorCode):
            return batch
        error = check_batch(batch, max_bytes=self._max_bytes)
        if error:
            return self._too_large(batch) if error == ErrorCode.MESSAGE_TOO_LARGE else error
        if batch.is_transactional and not transactional:
            return RefusedBatch(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "The records are part of a transaction, and the request names no transactional id.",
            )
        seen = scan_records(
            batch,
            need_keys=self._need_keys,
            limit_bytes=max(PRODUCED_LIMIT, self._max_bytes),
            earliest_ms=wall_ms - self._before_ms,
            latest_ms=wall_ms + self._after_ms,
            append_time=self._append_time,
        )
        if seen.error:
            return RefusedBatch(seen.error, seen.message, seen.record_errors)
        wanted = self._config.compression_type
        if wanted != "producer" and _CODECS[wanted] != batch.compression:
            batch = _recompressed(batch, _CODECS[wanted], self._config)
            if batch.size > self._max_bytes:
                return self._too_large(batch)
        if not self._append_time and (seen.max_timestamp != batch.max_timestamp or batch.is_append_time):
            return batch.stamped(max_timestamp=seen.max_timestamp, append_time=False)
        return batch

    def _too_large(self, batch: Batch) -> RefusedBatch:
        return RefusedBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch has {batch.size} bytes, and the topic takes at most {self._max_bytes} (max.message.bytes).",
        )


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
