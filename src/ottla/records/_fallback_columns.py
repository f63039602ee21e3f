"""The column half of the pure twin of the compiled part (`native/`): batches to Arrow-style buffers and back."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

from ottla.kernel.seams import Buffer
from ottla.records._fallback import Fields, RecordRefused, each_record, wrap_int64, write_sized, write_varint
from ottla.records.faults import RecordFault
from ottla.records.header import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    SIZE_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

_LAST_CODEC = 4
_INT32_MAX = 2**31 - 1
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

Nulls = tuple[int, int, int, int, int]
"""Null keys, null values, rows without headers, headers, null header contents."""
Decoded = tuple[int, int, int, int, list[bytearray], Nulls]
"""(0, position reached, next offset, rows, buffers, nulls), or (fault, position of the batch, record, 0, [], zeros)."""
Entry = tuple[Buffer | None, Buffer, Buffer]
"""A binary column: validity bitmap or None, int32 offsets, bytes."""
Lists = tuple[Buffer | None, Buffer, Entry, Entry]
"""Headers: validity bitmap or None, int32 offsets into names and contents."""

BatchHeader = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]


class _Binary:
    """A binary column being filled."""

    def __init__(self) -> None:
        self.valid: list[bool] = []
        self.offsets = array("i", [0])
        self.parts: list[Buffer] = []
        self.size = 0

    def add(self, view: memoryview, start: int, size: int) -> None:
        self.valid.append(size >= 0)
        if size > 0:
            self.parts.append(view[start : start + size])
            self.size += size
        self.offsets.append(self.size)

    @property
    def nulls(self) -> int:
        return self.valid.count(False)

    def buffers(self) -> list[bytearray]:
        return [_bitmap(self.valid), bytearray(self.offsets), bytearray(b"".join(self.parts))]


class _Filling:
    """All columns of a run."""

    def __init__(self) -> None:
        self.key = _Binary()
        self.value = _Binary()
        self.offsets = array("q")
        self.timestamps = array("q")
        self.types = array("i")
        self.with_headers: list[bool] = []
        self.lists = array("i", [0])
        self.names = _Binary()
        self.contents = _Binary()


def _bitmap(valid: list[bool]) -> bytearray:
    bits = bytearray((len(valid) + 7) // 8)
    for row, is_valid in enumerate(valid):
        if is_valid:
            bits[row >> 3] |= 1 << (row & 7)
    return bits


class _Run:
    """A walk over contiguous batches; see `decode`."""

    def __init__(self, view: Buffer, start: int, end: int, scale: int, aborted: Buffer, max_bytes: int) -> None:
        self.view = memoryview(view)
        self.start_offset = start
        self.end_offset = end
        self.scale = scale
        pairs = array("q", bytes(aborted))
        self.aborted = list(zip(pairs[::2], pairs[1::2], strict=True))
        self.aborting: set[int] = set()
        self.max_bytes = max_bytes
        self.bytes = 0
        self.uncompressed_bytes = 0
        self.filling = _Filling()
        self.with_headers = False

    def belongs_to_aborted(self, header: BatchHeader, batch: memoryview) -> bool:
        """Take note of aborted transactions up to this batch; whether the batch belongs to one."""
        base_offset, _, _, _, _, attributes, last_delta, _, _, producer_id, _, _, _ = header
        if producer_id < 0:
            return False
        while self.aborted and self.aborted[0][1] <= wrap_int64(base_offset + last_delta):
            self.aborting.add(self.aborted.pop(0)[0])
        if attributes & CONTROL_BIT:
            if _is_abort_marker(batch[HEADER_SIZE:]):
                self.aborting.discard(producer_id)
            return False
        return bool(attributes & TRANSACTIONAL_BIT) and producer_id in self.aborting

    def take(self, header: BatchHeader, payload: memoryview) -> bool:
        """Keep the records that are wanted; False, and nothing kept, where that would be too much for one call."""
        base_offset, count = header[0], header[12]
        wanted: list[tuple[int, Fields]] = []
        size = 0
        for fields in each_record(payload, count):
            offset = wrap_int64(base_offset + fields.offset_delta)
            if self.start_offset <= offset < self.end_offset:
                wanted.append((offset, fields))
                size += max(fields.key_size, 0) + max(fields.value_size, 0)
                if self.with_headers:
                    size += sum(max(name, 0) + max(content, 0) for _, name, _, content in fields.headers)
        uncompressed = len(payload) if header[5] & COMPRESSION_MASK else 0
        if self.filling.offsets and max(self.bytes + size, self.uncompressed_bytes + uncompressed) > self.max_bytes:
            return False
        if self.bytes + size > _INT32_MAX:
            raise OverflowError("one batch holds more than fits 32-bit offsets")
        self.bytes += size
        if wanted:
            self.uncompressed_bytes += uncompressed
        self._fill(header, payload, wanted)
        return True

    def _fill(self, header: BatchHeader, payload: memoryview, wanted: list[tuple[int, Fields]]) -> None:
        attributes, base_timestamp, max_timestamp = header[5], header[7], header[8]
        timestamp_type = 1 if attributes & TIMESTAMP_TYPE_BIT else 0
        out = self.filling
        for offset, fields in wanted:
            timestamp = max_timestamp if timestamp_type else wrap_int64(base_timestamp + fields.timestamp_delta)
            out.offsets.append(offset)
            out.timestamps.append(max(_INT64_MIN, min(_INT64_MAX, timestamp * self.scale)))
            out.types.append(timestamp_type)
            out.key.add(payload, fields.key_start, fields.key_size)
            out.value.add(payload, fields.value_start, fields.value_size)
            if self.with_headers:
                for name, name_size, content, content_size in fields.headers:
                    out.names.add(payload, name, name_size)
                    out.contents.add(payload, content, content_size)
                out.with_headers.append(bool(fields.headers))
                out.lists.append(len(out.names.valid))

    def finished(self, position: int, next_offset: int) -> Decoded:
        out = self.filling
        buffers = [*out.key.buffers(), *out.value.buffers()]
        buffers += (bytearray(out.offsets), bytearray(out.timestamps), bytearray(out.types))
        without = len(out.offsets)
        if self.with_headers:
            without = out.with_headers.count(False)
            buffers += (_bitmap(out.with_headers), bytearray(out.lists))
            buffers += (*out.names.buffers()[1:], *out.contents.buffers())
        nulls = (out.key.nulls, out.value.nulls, without, len(out.names.valid), out.contents.nulls)
        return 0, position, next_offset, len(out.offsets), buffers, nulls


def _is_abort_marker(payload: memoryview) -> bool:
    try:
        fields = next(each_record(payload, 1))
    except RecordRefused:
        return False
    return fields.key_size >= 4 and bytes(payload[fields.key_start + 2 : fields.key_start + 4]) == b"\x00\x00"


def decode(
    view: Buffer,
    position: int,
    start_offset: int,
    end_offset: int,
    scale: int,
    headers: bool,
    aborted: Buffer,
    check_crc: bool,
    max_bytes: int,
    decompress: Callable[[int, int, int], Buffer],
) -> Decoded:
    """The records with start_offset <= offset < end_offset of the whole batches from `position` on, as columns.

    Batches before `position` only tell which transactions are aborted. Stops before the batch that would make it more
    than `max_bytes` of keys, values and headers, or of what `decompress` gave, unless it is the first.
    """
    if scale < 1 or max_bytes > _INT32_MAX:
        raise ValueError("scale is at least 1, max_bytes below 2 GiB")
    run = _Run(view, start_offset, end_offset, scale, aborted, max_bytes)
    run.with_headers = headers
    at, next_offset = 0, start_offset
    try:
        while (header := _whole_batch(run.view, at)) is not None:
            size, wanted = header[1] + SIZE_OVERHEAD, at >= position
            last_offset = wrap_int64(header[0] + header[6])
            if wanted and header[0] >= end_offset:
                break
            batch = run.view[at : at + size]
            is_aborted = run.belongs_to_aborted(header, batch)
            if wanted and last_offset >= start_offset:
                if check_crc and not _crc_holds(header, batch):
                    raise RecordRefused(RecordFault.CRC)
                if not is_aborted and not header[5] & CONTROL_BIT:
                    payload = _payload(header, batch, at, decompress)
                    if not run.take(header, payload):
                        break
            if wanted:
                next_offset = wrap_int64(last_offset + 1)
            at += size
    except RecordRefused as refused:
        return refused.fault, at, refused.index, 0, [], (0, 0, 0, 0, 0)
    return run.finished(at, next_offset)


def _whole_batch(view: memoryview, at: int) -> BatchHeader | None:
    """The header of the batch at `at`; None where it is not all there."""
    left = len(view) - at
    if left < HEADER_SIZE:
        return None
    header: BatchHeader = HEADER.unpack_from(view, at)
    if header[3] != 2:
        raise RecordRefused(RecordFault.MAGIC)
    if header[1] + SIZE_OVERHEAD < HEADER_SIZE:
        raise RecordRefused(RecordFault.BATCH_SIZE)
    return header if header[1] + SIZE_OVERHEAD <= left else None


def _crc_holds(header: BatchHeader, batch: memoryview) -> bool:
    import google_crc32c

    return bool(google_crc32c.value(bytes(batch[21:])) == header[4])


def _payload(
    header: BatchHeader, batch: memoryview, at: int, decompress: Callable[[int, int, int], Buffer]
) -> memoryview:
    codec = header[5] & COMPRESSION_MASK
    if codec > _LAST_CODEC:
        raise RecordRefused(RecordFault.CODEC)
    if not codec:
        return batch[HEADER_SIZE:]
    return memoryview(decompress(codec, at + HEADER_SIZE, at + len(batch)))


# ---- encoding


class _Column:
    """A binary column as Arrow lays it out; None stands for nulls only."""

    def __init__(self, entry: Entry | None, rows: int | None) -> None:
        self.present = entry is not None
        if entry is None:
            return
        validity, offsets, data = entry
        self.offsets = _numbers(offsets, "i")
        self.entries = max(len(self.offsets) - 1, 0)
        if rows is not None and self.entries < rows:
            raise ValueError("a column has fewer offsets than rows")
        self.data = memoryview(data).cast("B")
        self.validity = _validity(validity, self.entries if rows is None else rows)

    def at(self, row: int) -> memoryview | None:
        if not self.present or not _is_valid(self.validity, row):
            return None
        start, end = self.offsets[row], self.offsets[row + 1]
        if not 0 <= start <= end <= len(self.data):
            raise ValueError("a column's offsets lie outside its bytes")
        return self.data[start:end]


def _numbers(buffer: Buffer, kind: str) -> memoryview:
    width = 4 if kind == "i" else 8
    view = memoryview(buffer).cast("B")
    return view[: len(view) // width * width].cast("i" if kind == "i" else "q")


def _validity(validity: Buffer | None, rows: int) -> memoryview | None:
    if validity is None:
        return None
    view = memoryview(validity).cast("B")
    if len(view) < (rows + 7) // 8:
        raise ValueError("a validity bitmap is shorter than its column")
    return view


def _is_valid(validity: memoryview | None, row: int) -> bool:
    return validity is None or bool(validity[row >> 3] >> (row & 7) & 1)


class _Times:
    def __init__(self, timestamps: tuple[Buffer | None, Buffer] | None, default: int, scale: int, rows: int) -> None:
        self.default = default
        self.scale = scale
        self.data: memoryview | None = None
        if timestamps is not None:
            validity, data = timestamps
            self.data = _numbers(data, "q")
            if len(self.data) < rows:
                raise ValueError("there are fewer timestamps than rows")
            self.validity = _validity(validity, rows)

    def at(self, row: int) -> int:
        if self.data is None or not _is_valid(self.validity, row):
            return self.default
        return self.data[row] // self.scale


class _Headers:
    def __init__(self, lists: Lists | None, rows: int) -> None:
        self.present = lists is not None
        if lists is None:
            return
        validity, offsets, names, contents = lists
        self.offsets = _numbers(offsets, "i")
        if len(self.offsets) - 1 < rows:
            raise ValueError("there are fewer lists of headers than rows")
        self.validity = _validity(validity, rows)
        self.names = _Column(names, None)
        self.contents = _Column(contents, None)
        if not self.names.present or not self.contents.present:
            raise ValueError("headers have names and contents")

    def at(self, row: int) -> list[tuple[memoryview, memoryview | None]]:
        if not self.present or not _is_valid(self.validity, row):
            return []
        start, end = self.offsets[row], self.offsets[row + 1]
        if not 0 <= start <= end <= min(self.names.entries, self.contents.entries):
            raise ValueError("a column's offsets lie outside its bytes")
        pairs = []
        for entry in range(start, end):
            name = self.names.at(entry)
            if name is None:
                raise ValueError("a header has a name")
            pairs.append((name, self.contents.at(entry)))
        return pairs


class Encoded(NamedTuple):
    """Room for a header and then the records; the compiled twin gives a plain tuple."""

    whole: bytearray
    rows: int
    base_timestamp: int
    max_timestamp: int


def encode(
    start: int,
    stop: int,
    max_bytes: int,
    key: Entry | None,
    value: Entry | None,
    timestamps: tuple[Buffer | None, Buffer] | None,
    default_timestamp: int,
    scale: int,
    headers: Lists | None,
) -> tuple[bytearray, int, int, int]:
    """Encode as many of the rows start..stop-1 as fit a batch of `max_bytes`, at least one."""
    if start < 0 or stop <= start or stop > _INT32_MAX or scale < 1:
        raise ValueError("no such rows")
    keys, values = _Column(key, stop), _Column(value, stop)
    times = _Times(timestamps, default_timestamp, scale, stop)
    lists = _Headers(headers, stop)
    whole = bytearray(HEADER_SIZE)
    base_timestamp, max_timestamp, rows = times.at(start), -1, 0
    for row in range(start, stop):
        timestamp = times.at(row)
        body = bytearray(1)
        write_varint(body, wrap_int64(timestamp - base_timestamp))
        write_varint(body, rows)
        write_sized(body, keys.at(row))
        write_sized(body, values.at(row))
        pairs = lists.at(row)
        write_varint(body, len(pairs))
        for name, content in pairs:
            write_sized(body, name)
            write_sized(body, content)
        length = bytearray()
        write_varint(length, len(body))
        if rows and len(whole) + len(length) + len(body) > max_bytes:
            break
        whole += length
        whole += body
        rows += 1
        max_timestamp = max(max_timestamp, timestamp)
    return Encoded(whole, rows, base_timestamp, max_timestamp)
