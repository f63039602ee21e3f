"""The pure twin of the compiled part (`native/`): the same functions and answers on the same bytes, only slower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from ottla.kernel.seams import Buffer
from ottla.records.faults import RecordFault

T = TypeVar("T", bound=tuple[object, ...])

SMALLEST_RECORD = 7
INT64_MAX = 2**63 - 1
_INT64_BITS = 2**64 - 1
_INT32_BITS = 2**32 - 1
_KEYLESS, _UNTIMELY = 1, 2


class RecordRefused(Exception):
    """Record `index` does not parse."""

    def __init__(self, fault: RecordFault, index: int = 0) -> None:
        self.fault = fault
        self.index = index


class Fields(NamedTuple):
    """The places of one record's parts in the payload; a size of -1 is a null."""

    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_size: int
    value_start: int
    value_size: int
    headers: list[tuple[int, int, int, int]]


def wrap_int64(number: int) -> int:
    """Wrap a number to 64 bits, as a Java long overflows."""
    number &= _INT64_BITS
    return number - (1 << 64) if number > INT64_MAX else number


def _varint(view: Buffer, position: int, end: int, bits: int, cut_off: RecordFault) -> tuple[int, int]:
    """A zig-zag varint of 32 or 64 bits: (number, position after it)."""
    raw = shift = 0
    longest = 28 if bits == 32 else 63
    while True:
        if position >= end:
            raise RecordRefused(cut_off)
        byte = view[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        if shift == longest:
            raise RecordRefused(RecordFault.VARINT_TOO_LONG)
        shift += 7
    raw &= _INT32_BITS if bits == 32 else _INT64_BITS
    return (raw >> 1) ^ -(raw & 1), position


def _sized(view: Buffer, position: int, end: int) -> tuple[int, int, int]:
    """A length and as many bytes: (start, size or -1, position after)."""
    size, position = _varint(view, position, end, 32, RecordFault.FIELD_SIZE)
    if size < 0:
        return position, -1, position
    if size > end - position:
        raise RecordRefused(RecordFault.FIELD_SIZE)
    return position, size, position + size


def _record(view: Buffer, position: int, end: int) -> tuple[Fields, int]:
    """One record from its length on: (fields, position after)."""
    size, position = _varint(view, position, end, 32, RecordFault.TRUNCATED)
    if size < 0:
        raise RecordRefused(RecordFault.RECORD_SIZE)
    if size > end - position:
        raise RecordRefused(RecordFault.TRUNCATED)
    end = position + size
    if size < 1:
        raise RecordRefused(RecordFault.FIELD_SIZE)
    timestamp_delta, position = _varint(view, position + 1, end, 64, RecordFault.FIELD_SIZE)
    offset_delta, position = _varint(view, position, end, 32, RecordFault.FIELD_SIZE)
    key_start, key_size, position = _sized(view, position, end)
    value_start, value_size, position = _sized(view, position, end)
    count, position = _varint(view, position, end, 32, RecordFault.FIELD_SIZE)
    if not 0 <= count <= end - position:
        raise RecordRefused(RecordFault.HEADER_COUNT)
    headers = []
    for _ in range(count):
        name_start, name_size, position = _sized(view, position, end)
        if name_size < 0:
            raise RecordRefused(RecordFault.HEADER_KEY)
        content_start, content_size, position = _sized(view, position, end)
        headers.append((name_start, name_size, content_start, content_size))
    if position != end:
        raise RecordRefused(RecordFault.RECORD_SIZE)
    return Fields(timestamp_delta, offset_delta, key_start, key_size, value_start, value_size, headers), position


def each_record(payload: Buffer, count: int) -> Iterator[Fields]:
    """All records of a payload, which they must fill exactly; raises at the first fault."""
    end = len(payload)
    if not 0 <= count <= end // SMALLEST_RECORD:
        raise RecordRefused(RecordFault.RECORD_COUNT)
    position = 0
    for index in range(count):
        try:
            fields, position = _record(payload, position, end)
        except RecordRefused as refused:
            refused.index = index
            raise
        yield fields
    if position != end:
        raise RecordRefused(RecordFault.TRAILING_BYTES, count)


def scan(payload: Buffer, count: int, base_timestamp: int) -> tuple[int, int, int, int, int, int]:
    """Parse all: (fault, index, least timestamp but -1, largest timestamp, its first delta, records without key)."""
    least, largest, largest_delta, keyless = INT64_MAX, -1, -1, 0
    try:
        for index, fields in enumerate(each_record(payload, count)):
            if fields.offset_delta != index:
                raise RecordRefused(RecordFault.OFFSET_DELTA, index)
            timestamp = wrap_int64(base_timestamp + fields.timestamp_delta)
            if timestamp > largest:
                largest, largest_delta = timestamp, index
            if timestamp != -1 and timestamp < least:
                least = timestamp
            keyless += fields.key_size < 0
    except RecordRefused as refused:
        return refused.fault, refused.index, INT64_MAX, -1, -1, 0
    return 0, 0, least, largest, largest_delta, keyless


def offenders(
    payload: Buffer, count: int, base_timestamp: int, need_keys: bool, earliest: int, latest: int, most: int
) -> list[tuple[int, int]]:
    """Up to `most` (index, 1 keyless or 2 untimely) of a payload that parses; a null key goes before a bad time."""
    found: list[tuple[int, int]] = []
    try:
        for index, fields in enumerate(each_record(payload, count)):
            if len(found) >= most:
                break
            timestamp = wrap_int64(base_timestamp + fields.timestamp_delta)
            if need_keys and fields.key_size < 0:
                found.append((index, _KEYLESS))
            elif timestamp != -1 and not earliest <= timestamp <= latest:
                found.append((index, _UNTIMELY))
    except RecordRefused:
        pass
    return found


def read(
    make: type[T],
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
) -> tuple[list[T], int, int]:
    """Every record, as the named tuple `make`: (records, fault, index)."""
    view = memoryview(payload)
    records: list[T] = []
    try:
        for fields in each_record(view, count):
            timestamp = wrap_int64(base_timestamp + fields.timestamp_delta) if append_time is None else append_time
            headers = tuple(
                (
                    bytes(view[start : start + size]).decode("utf-8", "replace"),
                    None if content_size < 0 else bytes(view[content : content + content_size]),
                )
                for start, size, content, content_size in fields.headers
            )
            key = None if fields.key_size < 0 else bytes(view[fields.key_start : fields.key_start + fields.key_size])
            end = fields.value_start + fields.value_size
            value = None if fields.value_size < 0 else bytes(view[fields.value_start : end])
            records.append(
                tuple.__new__(make, (wrap_int64(base_offset + fields.offset_delta), timestamp, key, value, headers))
            )
    except RecordRefused as refused:
        return [], refused.fault, refused.index
    return records, 0, 0


def write_varint(out: bytearray, number: int) -> None:
    raw = (number << 1) ^ (number >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def write_sized(out: bytearray, content: Buffer | None) -> None:
    if content is None:
        out.append(1)
    else:
        write_varint(out, len(content))
        out += content


def append_record(
    out: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[tuple[str | Buffer, Buffer | None]],
) -> None:
    """Write one record at the end of `out`."""
    if not -(2**31) <= offset_delta < 2**31 or not -(2**63) <= timestamp_delta < 2**63:
        raise OverflowError("an offset delta takes 32 bits, a timestamp delta 64")
    body = bytearray(1)
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    write_sized(body, key)
    write_sized(body, value)
    write_varint(body, len(headers))
    for name, content in headers:
        write_sized(body, name.encode() if isinstance(name, str) else name)
        write_sized(body, content)
    write_varint(out, len(body))
    out += body


def append_run(
    out: bytearray,
    max_bytes: int,
    first_delta: int,
    base_timestamp: int,
    timestamps: int | list[int],
    keys: bytes | list[bytes | None] | None,
    values: list[bytes | None],
    headers: Sequence[tuple[str | Buffer, Buffer | None]],
    start: int,
) -> int:
    """Write records from `start` on at the end of `out`, while it stays within `max_bytes`: the number of records.

    The first record of a batch is written whatever its size. An error leaves `out` as it was.
    """
    if not 0 <= first_delta < 2**31 or not 0 <= start <= len(values):
        raise ValueError("no such records")
    before = len(out)
    try:
        for index in range(start, len(values)):
            timestamp = timestamps[index] if isinstance(timestamps, list) else timestamps
            key = keys[index] if isinstance(keys, list) else keys
            delta, size = first_delta + index - start, len(out)
            append_record(out, delta, wrap_int64(timestamp - base_timestamp), key, values[index], headers)
            if delta and len(out) > max_bytes:
                del out[size:]
                return index - start
    except BaseException:
        del out[before:]
        raise
    return len(values) - start
