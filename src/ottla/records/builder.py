"""Records into v2 batches: at once (`build_batch`), one by one for a producer (`BatchBuilder`), or fewer of them
into the place of an existing batch (`retain`, for compaction)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.kernel.seams import Buffer
from ottla.records import compiled
from ottla.records.batch import Batch, seal
from ottla.records.compression import Codec, compress
from ottla.records.header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from ottla.records.reader import Record

_MOST_RECORD_OVERHEAD = 21
"""Attributes and the varints of length, timestamp, offset, key, value and header count at their longest likely."""


class BatchBuilder:
    """Gathers records for one batch; sizes are known at every moment, offsets count up by themselves.

    `add` says by False that a record does not fit into `max_bytes` any more; the first always fits.
    """

    __slots__ = (
        "_base_timestamp",
        "_buffer",
        "_count",
        "_last_delta",
        "_max_timestamp",
        "_size",
        "base_offset",
        "codec",
        "level",
        "max_bytes",
    )

    def __init__(
        self,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        max_bytes: int = 2**31 - 1,
        base_offset: int = 0,
        base_timestamp: int | None = None,
    ) -> None:
        self.codec = codec
        self.level = level
        self.max_bytes = max_bytes
        self.base_offset = base_offset
        self._base_timestamp = base_timestamp
        self._buffer = bytearray(HEADER_SIZE)
        self._size = HEADER_SIZE
        """The bytes of whole records. Behind them may stand one whose `add` a signal has interrupted."""
        self._count = 0
        self._last_delta = -1
        self._max_timestamp = NO_TIMESTAMP

    @property
    def records_count(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Bytes so far, header included, uncompressed."""
        return self._size

    @property
    def max_timestamp(self) -> int:
        return self._max_timestamp

    def add(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str | Buffer, Buffer | None]] = (),
        *,
        offset: int | None = None,
        most: int | None = None,
    ) -> bool:
        """Add one record at the next offset, or at a later one; False, and nothing added, where it does not fit.

        `most` is its `estimate_size`, where the caller knows it.
        An exception of a signal's handler, such as KeyboardInterrupt, leaves the record out or adds it whole.
        """
        if self._count and self._size + (most or estimate_size(key, value, headers)) > self.max_bytes:
            return False
        delta = self._last_delta + 1 if offset is None else offset - self.base_offset
        if delta <= self._last_delta:
            raise ValueError(f"offset {offset} comes after {self.base_offset + self._last_delta}")
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        if len(self._buffer) > self._size:
            del self._buffer[self._size :]
        compiled.append_record(self._buffer, delta, timestamp - self._base_timestamp, key, value, headers)
        size = len(self._buffer)
        latest = max(self._max_timestamp, timestamp)
        # No call from here on: handlers of signals run between calls.
        self._size = size
        self._count += 1
        self._last_delta = delta
        self._max_timestamp = latest
        return True

    def add_run(
        self,
        timestamps: int | list[int],
        keys: bytes | list[bytes | None] | None,
        values: list[bytes | None],
        headers: Sequence[tuple[str | Buffer, Buffer | None]] = (),
        *,
        start: int = 0,
    ) -> int:
        """Add records from `start` on at the next offsets, as many as fit: the number of them.

        A timestamp or a key is one for all records, or one for each in a list. Headers are those of every record.
        An exception of a signal's handler leaves the records out or adds them whole.
        """
        if self._base_timestamp is None:
            self._base_timestamp = timestamps[start] if isinstance(timestamps, list) else timestamps
        if len(self._buffer) > self._size:
            del self._buffer[self._size :]
        count = compiled.append_run(
            self._buffer,
            self.max_bytes,
            self._last_delta + 1,
            self._base_timestamp,
            timestamps,
            keys,
            values,
            headers,
            start,
        )
        size = len(self._buffer)
        added = max(timestamps[start : start + count], default=-1) if isinstance(timestamps, list) else timestamps
        latest = max(self._max_timestamp, added)
        # No call from here on: handlers of signals run between calls.
        self._size = size
        self._count += count
        self._last_delta += count
        self._max_timestamp = latest
        return count

    def build(
        self,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        leader_epoch: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        append_time_ms: int | None = None,
        last_offset_delta: int | None = None,
        delete_horizon: bool = False,
    ) -> bytes:
        """The finished batch. The builder is left as it is, so that another sequence can be given on a retry."""
        attributes = (
            self.codec
            | (TRANSACTIONAL_BIT if is_transactional else 0)
            | (CONTROL_BIT if is_control else 0)
            | (TIMESTAMP_TYPE_BIT if append_time_ms is not None else 0)
            | (DELETE_HORIZON_BIT if delete_horizon else 0)
        )
        if self.codec is Codec.NONE:
            whole = self._buffer[: self._size]
        else:
            whole = bytearray(HEADER_SIZE)
            whole += compress(self.codec, memoryview(self._buffer)[HEADER_SIZE : self._size], self.level)
        HEADER.pack_into(
            whole,
            0,
            self.base_offset,
            0,
            leader_epoch,
            MAGIC,
            0,
            attributes,
            self._last_delta if last_offset_delta is None else last_offset_delta,
            NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            self._max_timestamp if append_time_ms is None else append_time_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            self._count,
        )
        seal(whole)
        return bytes(whole)


def estimate_size(
    key: Buffer | None, value: Buffer | None, headers: Sequence[tuple[str | Buffer, Buffer | None]] = ()
) -> int:
    """The most bytes that a record adds to a batch, before compression."""
    size = _MOST_RECORD_OVERHEAD + 10 + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += 10 + (3 * len(name) if isinstance(name, str) else len(name)) + (len(content) if content else 0)
    return size


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    append_time_ms: int | None = None,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = -1,
) -> bytes:
    """One batch of `records` at consecutive offsets from `base_offset` (the records' own offsets do not matter).

    `append_time_ms` makes it a LogAppendTime batch of that time.
    """
    builder = BatchBuilder(codec=codec, level=level, base_offset=base_offset)
    for record in records:
        builder.add(record.timestamp, record.key, record.value, record.headers)
    return builder.build(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
        is_transactional=is_transactional,
        is_control=is_control,
        append_time_ms=append_time_ms,
    )


def retain(
    batch: Batch, records: Iterable[Record], *, delete_horizon_ms: int | None = None, level: int | None = None
) -> bytes:
    """`batch` with only these of its records, at their offsets; its own offsets, sequence, producer and codec stay.

    Compaction writes such batches: one may end up sparse or empty. `delete_horizon_ms`, once given, takes the base
    timestamp's place (KIP-534); a batch that has one keeps it.
    """
    horizon = batch.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms
    builder = BatchBuilder(
        codec=batch.compression,
        level=level,
        base_offset=batch.base_offset,
        base_timestamp=batch.base_timestamp if horizon is None else horizon,
    )
    for record in records:
        builder.add(record.timestamp, record.key, record.value, record.headers, offset=record.offset)
    if not builder.records_count:
        builder.codec = Codec.NONE
    return builder.build(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        leader_epoch=batch.leader_epoch,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        append_time_ms=batch.max_timestamp if batch.is_append_time else None,
        last_offset_delta=batch.last_offset_delta,
        delete_horizon=horizon is not None,
    )
