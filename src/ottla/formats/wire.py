"""Confluent's wire formats: a zero byte and a schema id of four bytes, or a one and a GUID, stand before each payload.

The same may stand in a header of the record instead, behind which the value is the payload alone. `cut` takes a whole
column apart without a Python object per row; `framed` puts the prefix of an id on again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MAGIC = 0
PREFIX_BYTES = 5
GUID_MAGIC = 1
GUID_PREFIX_BYTES = 17
VALUE_HEADER = "__value_schema_id"
"""The header that names the schema of a value."""
# binary_slice of pyarrow 26 fails with "Negative buffer resize" where no end is given.
_TO_THE_END = (1 << 31) - 1

Rows = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Faults = list[tuple[int, str]]
SchemaName = int | str
"""The id of a schema in its registry, or its GUID as text."""


@dataclass(frozen=True, slots=True)
class PayloadGroup:
    """The payloads of one schema, and the rows of the column that they stand in."""

    schema: SchemaName
    rows: Rows
    payloads: pa.Array


@dataclass(frozen=True, slots=True)
class Cut:
    """A column of values, taken apart. Each row is in one group, is null, or has a fault."""

    groups: tuple[PayloadGroup, ...]
    nulls: Rows
    faults: Faults


def cut(values: pa.Array, headers: pa.Array | None = None) -> Cut:
    """Split a binary column by schema. `headers` are the rows' headers that name one, null where there is none."""
    if headers is None or headers.null_count == len(headers):
        return _cut_prefixed(values)
    named = _present(headers) & _present(values)
    rows, others = np.flatnonzero(named), np.flatnonzero(~named)
    first = _cut_prefixed(values.take(pa.array(others)))
    groups = [replace(each, rows=others[each.rows]) for each in first.groups]
    faults = [(int(others[row]), why) for row, why in first.faults]
    codes = headers.take(pa.array(rows)).dictionary_encode()
    places = np.asarray(codes.indices, dtype=np.int64)
    for code, header in enumerate(codes.dictionary.to_pylist()):
        mine = rows[places == code]
        schema, rest = _named(header)
        if schema is None:
            faults += [(row, f"the header {VALUE_HEADER} names no schema") for row in mine.tolist()]
            continue
        payloads = values.take(pa.array(mine))
        groups.append(
            PayloadGroup(schema, mine, pc.binary_join_element_wise(rest, payloads, b"") if rest else payloads)
        )
    return Cut(tuple(groups), others[first.nulls], sorted(faults))


def _named(header: bytes) -> tuple[SchemaName | None, bytes]:
    """The schema that a header names, and what belongs before the payload: the path to a Protobuf message."""
    if header[:1] == bytes([GUID_MAGIC]) and len(header) >= GUID_PREFIX_BYTES:
        return str(UUID(bytes=header[1:GUID_PREFIX_BYTES])), header[GUID_PREFIX_BYTES:]
    if header[:1] == bytes([MAGIC]) and len(header) >= PREFIX_BYTES:
        return int.from_bytes(header[1:PREFIX_BYTES], "big"), header[PREFIX_BYTES:]
    return None, b""


def _cut_prefixed(values: pa.Array) -> Cut:
    starts, lengths, content = extents(values)
    present = _present(values)
    long_enough = present & (lengths >= PREFIX_BYTES)
    magic, ids = _prefixes(content, np.where(long_enough, starts, 0))
    fine = long_enough & (magic == MAGIC)
    guids = present & (lengths >= GUID_PREFIX_BYTES) & (magic == GUID_MAGIC)
    faults = _faults(present, long_enough, fine | guids, lengths, magic)
    return Cut((*_groups(values, ids, fine), *_guid_groups(values, guids)), np.flatnonzero(~present), faults)


def framed(schema_id: int, payloads: list[bytes | None]) -> pa.Array:
    """Payloads behind the prefix of their schema; None stays null."""
    prefix = bytes([MAGIC]) + schema_id.to_bytes(4, "big")
    return pa.array([None if payload is None else prefix + payload for payload in payloads], pa.binary())


def extents(values: pa.Array) -> tuple[Rows, Rows, Bytes]:
    """The start and the length of each value, and the bytes that all of them lie in."""
    _, offsets_buffer, data_buffer = values.buffers()
    if not len(values):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    wide = offsets.astype(np.int64)
    content = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    return wide[:-1], wide[1:] - wide[:-1], content


def _present(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if not values.null_count:
        return np.ones(len(values), dtype=np.bool_)
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _prefixes(content: Bytes, starts: Rows) -> tuple[Rows, Rows]:
    """The first byte and the four behind it of each value; anything for a column that has no prefix at all."""
    if len(content) < PREFIX_BYTES:
        return np.full(len(starts), -1), np.zeros(len(starts), dtype=np.int64)
    # A view of four bytes from every place: one gather instead of four.
    every = np.ndarray(len(content) - PREFIX_BYTES + 1, ">u4", content.data, 1, (1,))
    return content[starts].astype(np.int64), every[starts].astype(np.int64)


def _faults(present: Any, long_enough: Any, fine: Any, lengths: Rows, magic: Rows) -> Faults:
    faults = []
    for row in np.flatnonzero(present & ~fine).tolist():
        if not long_enough[row]:
            reason = f"{lengths[row]} bytes: too short for the prefix of a schema id"
        elif magic[row] == GUID_MAGIC:
            reason = f"{lengths[row]} bytes: too short for the prefix of a GUID"
        else:
            reason = f"the first byte is 0x{magic[row]:02x}, not the 0x00 before a schema id"
        faults.append((row, reason))
    return faults


def _groups(values: pa.Array, ids: Rows, fine: Any) -> tuple[PayloadGroup, ...]:
    rows = np.flatnonzero(fine)
    if not len(rows):
        return ()
    mine = ids[rows]
    if len(rows) == len(values) and int(mine.min()) == int(mine.max()):
        return (PayloadGroup(int(mine[0]), rows, without_prefix(values)),)
    groups = []
    for kind in np.unique(mine).tolist():
        mine = rows[ids[rows] == kind]
        groups.append(PayloadGroup(kind, mine, without_prefix(values.take(pa.array(mine)))))
    return tuple(groups)


def _guid_groups(values: pa.Array, chosen: Any) -> tuple[PayloadGroup, ...]:
    """The rows whose prefix is a GUID, by GUID."""
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return ()
    mine = values.take(pa.array(rows))
    codes = pc.binary_slice(mine, 1, GUID_PREFIX_BYTES).dictionary_encode()
    places = np.asarray(codes.indices, dtype=np.int64)
    payloads = pc.binary_slice(mine, GUID_PREFIX_BYTES, _TO_THE_END)
    return tuple(
        PayloadGroup(str(UUID(bytes=guid)), rows[places == code], payloads.filter(pa.array(places == code)))
        for code, guid in enumerate(codes.dictionary.to_pylist())
    )


def without_prefix(values: pa.Array) -> pa.Array:
    """The values behind their first five bytes."""
    return pc.binary_slice(values, PREFIX_BYTES, _TO_THE_END)
