"""A record batch by its 61-byte header: read at once, patched in place, its records left alone.

Used by broker/replicas/admission.py and storage; `scan_records` is the one place where a broker looks inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import Buffer
from ottla.records import compiled
from ottla.records.checksum import crc32c
from ottla.records.compression import PRODUCED_LIMIT, STORED_LIMIT, Codec, decompress
from ottla.records.faults import CorruptRecords, RecordFault
from ottla.records.header import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    COVERED,
    CRC_AT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    INT32,
    LENGTH_AT,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    PLACE,
    SIZE_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

_INT32_MAX = 2**31 - 1
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_KEYLESS_MESSAGE = "Compacted topic cannot accept message without key"
_STAMPED_MESSAGE = "The producer should not set the timestamp type to LogAppendTime."
_SMALLEST_LENGTH = 14
"""Kafka's least length of any format: anything below is corrupt before its magic is looked at."""


class Batch:
    """The header of one v2 batch over a view of its bytes; the view may be longer than the batch.

    A frame's view is valid until its handler first suspends: code that waits before the append takes `owned()`.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "records_count",
        "size",
        "view",
    )
    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    size: int
    """Bytes of the whole batch, header included, as it declares them."""
    view: memoryview
    """The bytes of this batch and no more."""

    def __init__(self, view: Buffer) -> None:
        """ValueError where there are fewer than 61 bytes; nothing else is checked (see `check_batch`)."""
        if len(view) < HEADER_SIZE:
            raise CorruptRecords(f"A batch header takes {HEADER_SIZE} bytes, here are {len(view)}.")
        (
            self.base_offset,
            length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.records_count,
        ) = HEADER.unpack_from(view)
        self.size = length + SIZE_OVERHEAD
        whole = view if isinstance(view, memoryview) else memoryview(view)
        self.view = whole if len(whole) <= self.size or self.size < HEADER_SIZE else whole[: self.size]

    def owned(self) -> Batch:
        """The same batch over bytes of its own, for code that keeps it longer than the frame lives."""
        return Batch(bytes(self.view))

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> Codec:
        """ValueError for the numbers 5 to 7, which no codec has (`check_batch` refuses them)."""
        return Codec(self.attributes & COMPRESSION_MASK)

    @property
    def is_append_time(self) -> bool:
        """True if `max_timestamp` is the broker's own time and stands for every record's."""
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time to drop tombstones at; compaction puts it in the base timestamp's place."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, which wraps from 2^31-1 to 0; -1 where there are none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & _INT32_MAX

    @property
    def payload(self) -> memoryview:
        """The bytes behind the header: the records, compressed as `compression` says."""
        return self.view[HEADER_SIZE:]

    def records_bytes(self, limit_bytes: int = STORED_LIMIT) -> Buffer:
        """The records, decompressed where need be; CorruptRecords where that cannot be done within the limit."""
        codec = self.attributes & COMPRESSION_MASK
        if codec == Codec.NONE:
            return self.payload
        if codec > Codec.ZSTD:
            raise CorruptRecords(RecordFault.CODEC.sentence, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        return decompress(Codec(codec), self.payload, limit_bytes)

    def crc_holds(self) -> bool:
        return crc32c(self.view[CRC_START:]) == self.crc

    def placed(self, base_offset: int, leader_epoch: int) -> tuple[bytes, memoryview]:
        """The batch as two parts to write, at an offset and in an epoch: both fields lie outside the CRC."""
        return PLACE.pack(base_offset, self.size - SIZE_OVERHEAD, leader_epoch), self.view[MAGIC_AT:]

    def stamped(self, *, max_timestamp: int, append_time: bool) -> Batch:
        """A copy with another largest timestamp and timestamp type, and so another CRC; records untouched."""
        attributes = self.attributes & ~TIMESTAMP_TYPE_BIT | (TIMESTAMP_TYPE_BIT if append_time else 0)
        copy = bytearray(self.view)
        COVERED.pack_into(
            copy,
            CRC_START,
            attributes,
            self.last_offset_delta,
            self.base_timestamp,
            max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.records_count,
        )
        seal(copy)
        return Batch(copy)

    def __repr__(self) -> str:
        return (
            f"Batch(base_offset={self.base_offset}, records_count={self.records_count}, size={self.size}, "
            f"attributes={self.attributes:#x}, producer_id={self.producer_id}, base_sequence={self.base_sequence})"
        )


def patch(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Assign offset and leader epoch in place to the batch at `position`; both lie outside the CRC."""
    PLACE.pack_into(buffer, position, base_offset, INT32.unpack_from(buffer, position + LENGTH_AT)[0], leader_epoch)


def seal(buffer: bytearray) -> None:
    """Write length and CRC into the header of the one batch that `buffer` is."""
    INT32.pack_into(buffer, LENGTH_AT, len(buffer) - SIZE_OVERHEAD)
    crc = crc32c(memoryview(buffer)[CRC_START:])
    buffer[CRC_AT:CRC_START] = crc.to_bytes(4, "big")


def iterate_batches(view: Buffer) -> Iterator[Batch]:
    """The whole batches at the start of `view`, up to an incomplete one (as fetch responses may end).

    CorruptRecords where a length is impossible or a batch is not of format v2; CRCs are left to the caller.
    """
    whole = view if isinstance(view, memoryview) else memoryview(view)
    position, end = 0, len(whole)
    while end - position >= HEADER_SIZE:
        batch = Batch(whole[position:])
        if batch.magic != MAGIC:
            raise CorruptRecords(f"The batch at byte {position} has magic {batch.magic}: only format v2 is served.")
        if batch.size < HEADER_SIZE:
            raise CorruptRecords(f"The batch at byte {position} declares {batch.size} bytes, less than its header.")
        if batch.size > end - position:
            return
        yield batch
        position += batch.size


def produced_batch(records: Buffer | None) -> Batch | ErrorCode:
    """The one v2 batch that a partition of a Produce request must be, or what Apache Kafka answers instead.

    Kafka's ProduceRequest.validateRecords: INVALID_RECORD for none, for more than one, and for the old formats;
    CORRUPT_MESSAGE for an impossible length or magic. `check_batch` looks at the rest of the header.
    """
    if records is None or len(records) <= MAGIC_AT:
        return ErrorCode.INVALID_RECORD
    (length,) = INT32.unpack_from(records, LENGTH_AT)
    if length < _SMALLEST_LENGTH or records[MAGIC_AT] > MAGIC:
        return ErrorCode.CORRUPT_MESSAGE
    if length + SIZE_OVERHEAD > len(records) or records[MAGIC_AT] != MAGIC:
        return ErrorCode.INVALID_RECORD
    if length + SIZE_OVERHEAD < HEADER_SIZE:
        return ErrorCode.CORRUPT_MESSAGE
    rest = len(records) - length - SIZE_OVERHEAD
    if rest:
        following = produced_batch(memoryview(records)[length + SIZE_OVERHEAD :])
        # A torn tail is not a second batch, as Kafka reads it; a whole or a corrupt one is.
        if following is not ErrorCode.INVALID_RECORD:
            return following if isinstance(following, ErrorCode) else ErrorCode.INVALID_RECORD
    return Batch(records)


def check_batch(batch: Batch, *, from_client: bool = True, max_bytes: int | None = None) -> ErrorCode:
    """Checks of a header before an append, in Kafka's order (UnifiedLog, LogValidator.validateBatch).

    Where Kafka fails with UNKNOWN_SERVER_ERROR on an unknown codec, this answers UNSUPPORTED_COMPRESSION_TYPE.
    """
    if batch.size < HEADER_SIZE or batch.size != len(batch.view):
        return ErrorCode.CORRUPT_MESSAGE
    if batch.magic != MAGIC:
        return ErrorCode.INVALID_RECORD if batch.magic in (0, 1) else ErrorCode.CORRUPT_MESSAGE
    if from_client and batch.base_offset != 0:
        return ErrorCode.INVALID_RECORD
    if max_bytes is not None and batch.size > max_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    if crc32c(batch.view[CRC_START:]) != batch.crc:
        return ErrorCode.CORRUPT_MESSAGE
    if batch.attributes & COMPRESSION_MASK > Codec.ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if from_client:
        return _check_from_client(batch)
    if not 0 <= batch.records_count <= batch.last_offset_delta + 1:
        return ErrorCode.INVALID_RECORD
    return ErrorCode.NONE


def _check_from_client(batch: Batch) -> ErrorCode:
    """A producer's batch is dense, holds something, and is not a control batch."""
    if batch.records_count <= 0 or batch.records_count != batch.last_offset_delta + 1:
        return ErrorCode.INVALID_RECORD
    if batch.attributes & CONTROL_BIT:
        return ErrorCode.INVALID_RECORD
    # A base sequence without a producer id is harmless and usual (kafkajs sends 0); the other way round it is not.
    if batch.producer_id >= 0 and (batch.base_sequence < 0 or batch.producer_epoch < 0):
        return ErrorCode.INVALID_RECORD
    return ErrorCode.NONE


class RecordError(NamedTuple):
    """One refused record of a Produce: its index in the batch, and the reason (the response's record_errors)."""

    batch_index: int
    message: str


class Scan(NamedTuple):
    """The result of a look at a batch's records; `error` is NONE if they may be appended."""

    error: ErrorCode
    message: str = ""
    max_timestamp: int = NO_TIMESTAMP
    """The largest timestamp of the records themselves; where the header says another, the append `stamped`s it."""
    max_timestamp_delta: int = -1
    """Offset delta of the first record that has it."""
    record_errors: tuple[RecordError, ...] = ()


def scan_records(
    batch: Batch,
    *,
    need_keys: bool = False,
    limit_bytes: int = PRODUCED_LIMIT,
    earliest_ms: int | None = None,
    latest_ms: int | None = None,
    append_time: bool = False,
) -> Scan:
    """Parse every record of a producer's batch without keeping any, and say what Apache Kafka's LogValidator would.

    `need_keys`: the topic is compacted. `earliest_ms`: now less message.timestamp.before.max.ms (also where that is
    its default, the largest int64: Kafka refuses what overflows there); `latest_ms`: now and after.max.ms.
    `append_time`: the topic stamps LogAppendTime, so that the records' own times do not matter.
    Stricter than Kafka in one point: offset deltas must be 0, 1, 2..., where Kafka would renumber.
    """
    try:
        payload = batch.records_bytes(limit_bytes)
    except CorruptRecords as fault:
        return Scan(fault.error, str(fault))
    found = compiled.scan(payload, batch.records_count, batch.base_timestamp)
    fault_number, index, min_timestamp, max_timestamp, max_delta, keyless = found
    if fault_number:
        what = RecordFault(fault_number)
        return Scan(what.error, f"{what.sentence} (record {index})")
    stamped = batch.attributes & TIMESTAMP_TYPE_BIT
    if stamped:
        min_timestamp = max_timestamp = batch.max_timestamp
        max_delta = 0
    bounds = (
        _INT64_MIN if earliest_ms is None or append_time else max(earliest_ms, _INT64_MIN),
        _INT64_MAX if latest_ms is None or append_time else min(latest_ms, _INT64_MAX),
    )
    # Kafka's validateTimestamp: a producer may not claim LogAppendTime where it stands for no time or is the topic's.
    all_untimely = bool(stamped) and (
        append_time or max_timestamp == NO_TIMESTAMP or not bounds[0] <= max_timestamp <= bounds[1]
    )
    out_of_range = not stamped and (min_timestamp < bounds[0] or max_timestamp > bounds[1])
    if (need_keys and keyless) or all_untimely or out_of_range:
        if stamped:
            bounds = _INT64_MIN, _INT64_MAX
        return _refusal(batch, payload, need_keys, bounds, all_untimely=all_untimely)
    return Scan(ErrorCode.NONE, "", max_timestamp, max_delta)


def _refusal(batch: Batch, payload: Buffer, need_keys: bool, bounds: tuple[int, int], *, all_untimely: bool) -> Scan:
    """The answer that names each refused record: one untimely record makes it INVALID_TIMESTAMP, as in Kafka."""
    offenders = compiled.offenders(payload, batch, need_keys, bounds)
    messages = {index: _KEYLESS_MESSAGE for index, reason in offenders if reason == compiled.KEYLESS}
    untimely = {index for index, reason in offenders if reason == compiled.UNTIMELY}
    if all_untimely:
        untimely = set(range(min(batch.records_count, compiled.MOST_OFFENDERS))) - messages.keys()
        messages |= dict.fromkeys(untimely, _STAMPED_MESSAGE)
    elif untimely:
        rows, _, _ = compiled.read(tuple, payload, batch.records_count, 0, batch.base_timestamp, None)
        for index in untimely:
            messages[index] = (
                f"Timestamp {rows[index][1]} of the record is out of range. "
                f"It should be within [{bounds[0]}, {bounds[1]}]"
            )
    errors = tuple(RecordError(index, message) for index, message in sorted(messages.items()))
    if untimely:
        message = "One or more records have been rejected due to invalid timestamp"
        return Scan(ErrorCode.INVALID_TIMESTAMP, message, record_errors=errors)
    message = f"One or more records have been rejected due to {len(errors)} record errors in total: they have no key"
    return Scan(ErrorCode.INVALID_RECORD, message, record_errors=errors)


def settled(batch: Batch, scan: Scan, *, append_time: bool, now_ms: int) -> Batch:
    """The batch to store: itself, or a copy with a corrected timestamp type and largest timestamp."""
    if append_time:
        return batch.stamped(max_timestamp=now_ms, append_time=True)
    if batch.is_append_time or scan.max_timestamp != batch.max_timestamp:
        return batch.stamped(max_timestamp=scan.max_timestamp, append_time=False)
    return batch
