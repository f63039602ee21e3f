"""Batches to columns and back, in the memory layout of Arrow, without one Python object per row (rule G4).

Comes from rows/read.py and spark/writer.py; rows/arrow.py wraps the buffers by `pa.Array.from_buffers`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.kernel.seams import Buffer
from ottla.records import compiled
from ottla.records.batch import seal
from ottla.records.compression import STORED_LIMIT, Codec, compress, decompress
from ottla.records.faults import CorruptRecords, RecordFault
from ottla.records.header import HEADER, HEADER_SIZE, MAGIC

DEFAULT_MAX_BYTES = 128 * 1024 * 1024
"""Keys, values and headers that one `decode_columns` gathers before it stops between two batches.

As many bytes of records uncompressed stop it too: those of empty records are few, but the columns' rows are not.
"""
_NO_END = 2**63 - 1


class TimeUnit(IntEnum):
    """Units of timestamps in columns: how many make a millisecond."""

    MILLIS = 1
    MICROS = 1000


class BinaryColumn(NamedTuple):
    """`pa.Array.from_buffers(pa.binary(), rows, [validity, offsets, data], null_count)`."""

    validity: Buffer | None
    """One bit a row, least significant first; None where there are no nulls."""
    offsets: Buffer
    """int32, one more than rows."""
    data: Buffer
    null_count: int = 0


class HeaderColumn(NamedTuple):
    """A list of (name, content) per row; rows without headers are empty lists, or null by `validity`."""

    validity: Buffer
    """One bit a row: set where the row has headers."""
    null_count: int
    """Rows without headers."""
    offsets: Buffer
    """int32, one more than rows, into names and contents."""
    entries: int
    """Entries of names and of contents."""
    names: BinaryColumn
    """UTF-8 as it came; never null."""
    contents: BinaryColumn


class RecordColumns(NamedTuple):
    """The decoded rows of a run of batches."""

    rows: int
    next_offset: int
    """The offset after the last batch that was gone past, control and aborted ones included."""
    position: int
    """The place in the view at which decoding stopped: go on from here, unless no whole batch is left."""
    key: BinaryColumn
    value: BinaryColumn
    offset: Buffer
    """int64."""
    timestamp: Buffer
    """int64, in the unit asked for; -1 ms where the record has none."""
    timestamp_type: Buffer
    """int32: 0 CreateTime, 1 LogAppendTime."""
    headers: HeaderColumn | None


def decode_columns(
    view: Buffer,
    *,
    position: int = 0,
    start_offset: int = 0,
    end_offset: int | None = None,
    unit: TimeUnit = TimeUnit.MILLIS,
    headers: bool = False,
    aborted: Sequence[tuple[int, int]] = (),
    check_crc: bool = True,
    limit_bytes: int = STORED_LIMIT,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> RecordColumns:
    """Decode the whole batches in `view` (a fetch response's records) from byte `position` on.

    Rows below `start_offset` and from `end_offset` on are left out, so are control batches and, for a reader of
    committed records, batches of `aborted` transactions: (producer id, first offset), as Fetch answers them. To go on
    after `max_bytes`, call again with the same view and list and `position=columns.position`. CorruptRecords where
    a batch is not sound; the batches before it are not given then.
    """
    whole = view if isinstance(view, memoryview) else memoryview(view)
    pairs = array("q", [number for pair in sorted(aborted, key=_first_offset) for number in pair])
    end = _NO_END if end_offset is None else end_offset

    def payload(codec: int, start: int, stop: int) -> Buffer:
        return decompress(Codec(codec), whole[start:stop], limit_bytes)

    fault, reached, next_offset, rows, parts, nulls = compiled.decode(
        whole, position, start_offset, end, unit, headers, memoryview(pairs).cast("B"), check_crc, max_bytes, payload
    )
    if fault:
        base_offset = int.from_bytes(whole[reached : reached + 8], "big", signed=True)
        what = RecordFault(fault)
        where = f"(record {next_offset} of the batch at offset {base_offset}, byte {reached})"
        raise CorruptRecords(f"{what.sentence} {where}", what.error)
    return _columns(rows, next_offset, reached, parts, nulls)


def _first_offset(pair: tuple[int, int]) -> int:
    return pair[1]


def _columns(
    rows: int, next_offset: int, position: int, parts: list[bytearray], nulls: tuple[int, int, int, int, int]
) -> RecordColumns:
    null_keys, null_values, without_headers, headers_count, null_contents = nulls
    headers = None
    if len(parts) > 9:
        names = BinaryColumn(None, parts[11], parts[12])
        contents = BinaryColumn(parts[13] if null_contents else None, parts[14], parts[15], null_contents)
        headers = HeaderColumn(parts[9], without_headers, parts[10], headers_count, names, contents)
    return RecordColumns(
        rows,
        next_offset,
        position,
        BinaryColumn(parts[0] if null_keys else None, parts[1], parts[2], null_keys),
        BinaryColumn(parts[3] if null_values else None, parts[4], parts[5], null_values),
        parts[6],
        parts[7],
        parts[8],
        headers,
    )


class EncodedBatch(NamedTuple):
    """One batch of rows, and what a producer needs to know about it."""

    batch: bytearray
    """Finished, with its CRC; base offset 0."""
    rows: int
    base_sequence: int
    max_timestamp: int


def encode_columns(
    rows: int,
    *,
    key: BinaryColumn | None,
    value: BinaryColumn | None,
    timestamp: tuple[Buffer | None, Buffer] | None = None,
    default_timestamp_ms: int = -1,
    unit: TimeUnit = TimeUnit.MILLIS,
    headers: HeaderColumn | None = None,
    headers_may_be_null: bool = True,
    start: int = 0,
    max_bytes: int = 1024 * 1024,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> Iterator[EncodedBatch]:
    """Rows `start` to `rows` - 1 of Arrow-style columns as batches of at most `max_bytes` before compression.

    One row that is larger is a batch of its own. A column of None is all null. Indexes are absolute in the buffers:
    a sliced Arrow array gives its offset as `start` and offset + length as `rows`. `timestamp` is (validity, int64);
    where it is null the default stands. Sequences count on from `base_sequence` and wrap. ValueError where offsets
    reach outside their buffers.
    """
    attributes = codec | (0x10 if is_transactional else 0)
    lists = None
    if headers is not None:
        validity = headers.validity if headers_may_be_null and headers.null_count else None
        lists = (validity, headers.offsets, headers.names[:3], headers.contents[:3])
    sequence = base_sequence
    while start < rows:
        whole, taken, base_timestamp, max_timestamp = compiled.encode(
            start,
            rows,
            max_bytes,
            None if key is None else key[:3],
            None if value is None else value[:3],
            timestamp,
            default_timestamp_ms,
            unit,
            lists,
        )
        if codec is not Codec.NONE:
            packed = compress(codec, memoryview(whole)[HEADER_SIZE:], level)
            whole = bytearray(HEADER_SIZE)
            whole += packed
        HEADER.pack_into(
            whole, 0, 0, 0, -1, MAGIC, 0, attributes, taken - 1, base_timestamp, max_timestamp,
            producer_id, producer_epoch, sequence, taken,
        )  # fmt: skip
        seal(whole)
        yield EncodedBatch(whole, taken, sequence, max_timestamp)
        start += taken
        if sequence >= 0:
            sequence = (sequence + taken) & 0x7FFFFFFF
