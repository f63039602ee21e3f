"""Produce and Fetch requests by hand: the two messages that decide the broker's speed, as bare tuples.

The declared codec of `messages/produce.py` and `messages/fetch.py` is the truth; this file gives the same values and
the same bytes twenty times faster (rule E2). From here requests go to the handlers of broker/handlers.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from ottla.kernel.ids import NO_TOPIC_ID
from ottla.kernel.seams import FileSlice
from ottla.schema.codec import MalformedMessage
from ottla.schema.varints import MOST_ELEMENTS

Part = bytes | FileSlice

_INT8 = Struct(">b")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_ACKS_TIMEOUT = Struct(">hi")
_FLEXIBLE_PRODUCE = 9
_FLEXIBLE_FETCH = 12
_BY_TOPIC_ID = 13

PartitionRecords = tuple[int, memoryview | None]
"""(partition, records)"""
TopicRecords = tuple[str, bytes, list[PartitionRecords]]
"""(topic name or "", topic id or zeroes, partitions)"""


class Produce(NamedTuple):
    """A Produce request; records are views into the frame."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicRecords]


ProducedPartition = tuple[int, int, int, int, int]
"""(partition, error, base offset, log append time or -1, log start offset)"""
ProducedTopic = tuple[str, bytes, list[ProducedPartition]]

FetchedFrom = tuple[int, int, int, int, int, int]
"""(partition, current leader epoch, fetch offset, last fetched epoch, log start offset, max bytes)"""


class Fetch(NamedTuple):
    """A Fetch request; a topic is (name or "", topic id or zeroes, partitions)."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[str, bytes, list[FetchedFrom]]]
    forgotten: list[tuple[str, bytes, list[int]]]
    rack: str


class FetchedPartition(NamedTuple):
    """The answer of one partition; `slices` leave without a copy."""

    partition: int
    error: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    slices: Sequence[FileSlice] = ()
    records_size: int = 0
    diverging: tuple[int, int] | None = None
    """(epoch, end offset)"""
    leader: tuple[int, int] | None = None
    """(leader id, leader epoch), only with an error"""


FetchedTopic = tuple[str, bytes, list[FetchedPartition]]
Endpoint = tuple[int, str, int, str | None]
"""(node id, host, port, rack)"""


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(5):
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, at
        shift += 7
    raise MalformedMessage("varint of more than 32 bits")


def _compact_length(view: memoryview, at: int) -> tuple[int, int]:
    """The length of a compact value, -1 for null, and the position where it begins."""
    byte = view[at]
    if byte < 0x80:
        return byte - 1, at + 1
    value, at = _varint(view, at)
    return value - 1, at


def _text(view: memoryview, at: int, size: int) -> tuple[str, int]:
    end = at + size
    if size < 0 or end > len(view):
        raise MalformedMessage("string runs past the end of the frame, or is null where it may not be")
    return str(view[at:end], "utf-8"), end


def skip_tags(view: memoryview, at: int) -> int:
    count = view[at]
    at += 1
    if count == 0:
        return at
    for _tag, _start, end in _tags(view, at - 1):
        at = end
    return at


def _tags(view: memoryview, at: int) -> list[tuple[int, int, int]]:
    """(tag, start, end) of each tagged field; the last `end` is the position after the struct's tags."""
    count, at = _varint(view, at)
    if count > 1000 or count * 2 > len(view) - at:
        raise MalformedMessage("more tagged fields than a struct may have")
    found = []
    last = -1
    for _ in range(count):
        tag, at = _varint(view, at)
        size, at = _varint(view, at)
        if tag <= last:
            raise MalformedMessage("tagged fields out of order")
        if at + size > len(view):
            raise MalformedMessage("tagged field runs past the end of the frame")
        last = tag
        found.append((tag, at, at + size))
        at += size
    return found


def _count(view: memoryview, at: int, flexible: bool, least: int) -> tuple[int, int]:
    """An array's count, refused if the frame could not hold that many; null counts as -1."""
    if flexible:
        count, at = _compact_length(view, at)
    else:
        (count,) = _INT32.unpack_from(view, at)
        at += 4
    if count < 0 or count * least > len(view) - at:
        raise MalformedMessage("array of more elements than the frame holds, or null where it may not be")
    if count > MOST_ELEMENTS:
        raise _too_many()
    return count, at


def _too_many() -> MalformedMessage:
    return MalformedMessage(f"above {MOST_ELEMENTS} elements")


def _topic(view: memoryview, at: int, version: int, flexible: bool) -> tuple[str, bytes, int]:
    """A topic by name or, from version 13 of both APIs on, by id."""
    if version >= _BY_TOPIC_ID:
        end = at + 16
        if end > len(view):
            raise MalformedMessage("topic id runs past the end of the frame")
        return "", bytes(view[at:end]), end
    if flexible:
        size, at = _compact_length(view, at)
    else:
        (size,) = _INT16.unpack_from(view, at)
        at += 2
    name, at = _text(view, at, size)
    return name, NO_TOPIC_ID, at


def decode_produce(view: memoryview, at: int, version: int) -> tuple[Produce, int]:
    """A Produce body of version 3 to 13 from `at`, and the position after it."""
    try:
        return _decode_produce(view, at, version)
    except (IndexError, StructError, UnicodeDecodeError) as fault:
        raise MalformedMessage(str(fault)) from fault


def _decode_produce(view: memoryview, at: int, version: int) -> tuple[Produce, int]:
    flexible = version >= _FLEXIBLE_PRODUCE
    if flexible:
        size, at = _compact_length(view, at)
    else:
        (size,) = _INT16.unpack_from(view, at)
        at += 2
    transactional_id = None
    if size >= 0:
        transactional_id, at = _text(view, at, size)
    elif size != -1:
        raise MalformedMessage("negative length")
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, at)
    topics: list[TopicRecords] = []
    held = 0
    count, at = _count(view, at + 6, flexible, 3 if flexible else 6)
    for _ in range(count):
        name, topic_id, at = _topic(view, at, version, flexible)
        partitions, at = _decode_records(view, at, flexible)
        held += len(partitions)
        if held > MOST_ELEMENTS:
            raise _too_many()
        topics.append((name, topic_id, partitions))
    if flexible:
        at = skip_tags(view, at)
    return Produce(transactional_id, acks, timeout_ms, topics), at


def _decode_records(view: memoryview, at: int, flexible: bool) -> tuple[list[PartitionRecords], int]:
    partitions: list[PartitionRecords] = []
    limit = len(view)
    count, at = _count(view, at, flexible, 6 if flexible else 8)
    for _ in range(count):
        (index,) = _INT32.unpack_from(view, at)
        at += 4
        if flexible:
            size, at = _compact_length(view, at)
        else:
            (size,) = _INT32.unpack_from(view, at)
            at += 4
        records = None
        if size >= 0:
            end = at + size
            if end > limit:
                raise MalformedMessage("records run past the end of the frame")
            records = view[at:end]
            at = end
        elif size != -1:
            raise MalformedMessage("negative length")
        if flexible:
            at = skip_tags(view, at)
        partitions.append((index, records))
    if flexible:
        at = skip_tags(view, at)
    return partitions, at


_FETCH_HEAD = Struct(">iii")
_FETCH_SESSION = Struct(">bii")
_FETCHED_FROM = {4: Struct(">iqi"), 5: Struct(">iqqi"), 9: Struct(">iiqqi"), 12: Struct(">iiqiqi")}
_REPLICA_STATE = Struct(">iq")


def decode_fetch(view: memoryview, at: int, version: int) -> tuple[Fetch, int]:
    """A Fetch body of version 4 to 18 from `at`, and the position after it."""
    try:
        return _decode_fetch(view, at, version)
    except (IndexError, StructError, UnicodeDecodeError) as fault:
        raise MalformedMessage(str(fault)) from fault


def _decode_fetch(view: memoryview, at: int, version: int) -> tuple[Fetch, int]:
    flexible = version >= _FLEXIBLE_FETCH
    replica_id, replica_epoch = -1, -1
    if version <= 14:
        (replica_id,) = _INT32.unpack_from(view, at)
        at += 4
    max_wait_ms, min_bytes, max_bytes = _FETCH_HEAD.unpack_from(view, at)
    at += 12
    session_id, session_epoch = 0, -1
    if version >= 7:
        isolation_level, session_id, session_epoch = _FETCH_SESSION.unpack_from(view, at)
        at += 9
    else:
        (isolation_level,) = _INT8.unpack_from(view, at)
        at += 1
    topics, held, at = _decode_fetch_topics(view, at, version, flexible)
    forgotten = []
    if version >= 7:
        count, at = _count(view, at, flexible, 3 if flexible else 6)
        for _ in range(count):
            name, topic_id, at = _topic(view, at, version, flexible)
            size, at = _count(view, at, flexible, 4)
            gone = list(Struct(f">{size}i").unpack_from(view, at))
            at += 4 * size
            held += size
            if held > MOST_ELEMENTS:
                raise _too_many()
            if flexible:
                at = skip_tags(view, at)
            forgotten.append((name, topic_id, gone))
    rack = ""
    if version >= 11:
        if flexible:
            size, at = _compact_length(view, at)
        else:
            (size,) = _INT16.unpack_from(view, at)
            at += 2
        rack, at = _text(view, at, size)
    if flexible:
        replica_id, replica_epoch, at = _fetch_tags(view, at, version, replica_id)
    return (
        Fetch(
            replica_id,
            replica_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten,
            rack,
        ),
        at,
    )


def _decode_fetch_topics(
    view: memoryview, at: int, version: int, flexible: bool
) -> tuple[list[tuple[str, bytes, list[FetchedFrom]]], int, int]:
    """The topics, the number of all their partitions, and the position after them."""
    topics: list[tuple[str, bytes, list[FetchedFrom]]] = []
    held = 0
    count, at = _count(view, at, flexible, 3 if flexible else 6)
    for _ in range(count):
        name, topic_id, at = _topic(view, at, version, flexible)
        partitions, at = _decode_fetched_from(view, at, version, flexible)
        held += len(partitions)
        if held > MOST_ELEMENTS:
            raise _too_many()
        topics.append((name, topic_id, partitions))
    return topics, held, at


def _fetch_tags(view: memoryview, at: int, version: int, replica_id: int) -> tuple[int, int, int]:
    if view[at] == 0:
        return replica_id, -1, at + 1
    replica_epoch = -1
    end = at + 1
    for tag, start, end in _tags(view, at):
        if tag == 0:
            size, text_at = _compact_length(view, start)
            text_end = text_at
            if size >= 0:
                _, text_end = _text(view, text_at, size)
            _check_tag_end(text_end, end)
        elif tag == 1 and version >= 15:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(view, start)
            _check_tag_end(skip_tags(view, start + 12), end)
    return replica_id, replica_epoch, end


def _check_tag_end(used: int, end: int) -> None:
    if used != end:
        raise MalformedMessage("tagged field of another size than it claims")


def _decode_fetched_from(view: memoryview, at: int, version: int, flexible: bool) -> tuple[list[FetchedFrom], int]:
    shape = _FETCHED_FROM[12 if version >= 12 else 9 if version >= 9 else 5 if version >= 5 else 4]
    found: list[FetchedFrom] = []
    count, at = _count(view, at, flexible, shape.size)
    for _ in range(count):
        values = shape.unpack_from(view, at)
        at += shape.size
        if flexible:
            at = _skip_fetch_partition_tags(view, at, version)
            found.append(values)
        elif version >= 9:
            index, epoch, offset, start, size = values
            found.append((index, epoch, offset, -1, start, size))
        elif version >= 5:
            index, offset, start, size = values
            found.append((index, -1, offset, -1, start, size))
        else:
            index, offset, size = values
            found.append((index, -1, offset, -1, -1, size))
    if flexible:
        at = skip_tags(view, at)
    return found, at


def _skip_fetch_partition_tags(view: memoryview, at: int, version: int) -> int:
    """Check the sizes of tags 0 (directory id, 17 on) and 1 (high watermark, 18 on), which are for KRaft only."""
    if view[at] == 0:
        return at + 1
    end = at + 1
    for tag, start, end in _tags(view, at):
        if (tag == 0 and version >= 17 and end - start != 16) or (tag == 1 and version >= 18 and end - start != 8):
            raise MalformedMessage("tagged field of another size than it claims")
    return end
