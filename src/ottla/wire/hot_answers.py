"""Produce and Fetch answers by hand, with the bytes of the declared codec; the requests are in wire/hot.py.

From here they go to wire/connection.py, file slices among them that nobody has copied.
"""

from __future__ import annotations

from struct import Struct

from ottla.kernel.errors import ErrorCode
from ottla.wire.hot import Endpoint, Fetch, FetchedPartition, Part, Produce, ProducedPartition, ProducedTopic

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_SIZE_AND_CORRELATION = Struct(">ii")
_FLEXIBLE_PRODUCE = 9
_FLEXIBLE_FETCH = 12
_BY_TOPIC_ID = 13


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        _write_varint(out, count + 1)
    else:
        out += _INT32.pack(count)


def _write_topic(out: bytearray, name: str, topic_id: bytes, version: int, flexible: bool) -> None:
    if version >= _BY_TOPIC_ID:
        out += topic_id
        return
    text = name.encode()
    if flexible:
        _write_varint(out, len(text) + 1)
    else:
        out += _INT16.pack(len(text))
    out += text


_PRODUCED_2 = Struct(">ihqq")
_PRODUCED_5 = Struct(">ihqqq")
_NO_ERRORS_FLEXIBLE = b"\x01\x00\x00"
"""No record errors, no message, no tags."""
_NO_ERRORS = b"\x00\x00\x00\x00\xff\xff"


def encode_produced(correlation_id: int, version: int, topics: list[ProducedTopic], throttle_ms: int) -> bytes:
    """A whole Produce answer, length prefix and header included, without record errors and leader hints."""
    flexible = version >= _FLEXIBLE_PRODUCE
    out = bytearray(_SIZE_AND_CORRELATION.pack(0, correlation_id))
    if flexible:
        out.append(0)
    _write_count(out, len(topics), flexible)
    ending = _NO_ERRORS_FLEXIBLE if flexible else _NO_ERRORS if version >= 8 else b""
    for name, topic_id, partitions in topics:
        _write_topic(out, name, topic_id, version, flexible)
        _write_count(out, len(partitions), flexible)
        for produced in partitions:
            out += _PRODUCED_5.pack(*produced) if version >= 5 else _PRODUCED_2.pack(*produced[:4])
            out += ending
        if flexible:
            out.append(0)
    out += _INT32.pack(throttle_ms)
    if flexible:
        out.append(0)
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


_FETCHED_4 = Struct(">ihqq")
_FETCHED_5 = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_DIVERGING = Struct(">iq")
_LEADER = Struct(">ii")


class FetchAnswer:
    """Builds a Fetch answer: runs of bytes with file slices between them, the length prefix last."""

    __slots__ = ("_flexible", "_out", "_parts", "_slices_size", "_version")

    def __init__(
        self, correlation_id: int, version: int, *, throttle_ms: int, error: int, session_id: int, topics: int
    ) -> None:
        self._version = version
        self._flexible = version >= _FLEXIBLE_FETCH
        self._parts: list[Part] = []
        self._slices_size = 0
        out = self._out = bytearray(_SIZE_AND_CORRELATION.pack(0, correlation_id))
        if self._flexible:
            out.append(0)
        out += _INT32.pack(throttle_ms)
        if version >= 7:
            out += _INT16.pack(error)
            out += _INT32.pack(session_id)
        _write_count(out, topics, self._flexible)

    def topic(self, name: str, topic_id: bytes, partitions: list[FetchedPartition]) -> None:
        flexible, version = self._flexible, self._version
        out = self._out
        _write_topic(out, name, topic_id, version, flexible)
        _write_count(out, len(partitions), flexible)
        for partition in partitions:
            self._partition(partition, version, flexible)
        if flexible:
            self._out.append(0)

    def _partition(self, fetched: FetchedPartition, version: int, flexible: bool) -> None:
        out = self._out
        if version >= 5:
            out += _FETCHED_5.pack(*fetched[:5])
        else:
            out += _FETCHED_4.pack(*fetched[:4])
        aborted = fetched.aborted
        if aborted is None:
            out += b"\x00" if flexible else b"\xff\xff\xff\xff"
        else:
            _write_count(out, len(aborted), flexible)
            for transaction in aborted:
                out += _ABORTED.pack(*transaction)
                if flexible:
                    out.append(0)
        if version >= 11:
            out += _INT32.pack(fetched.preferred_read_replica)
        _write_count(out, fetched.records_size, flexible)
        if fetched.records_size:
            self._parts.append(bytes(out))
            self._parts.extend(fetched.slices)
            self._slices_size += fetched.records_size
            out = self._out = bytearray()
        if flexible:
            self._partition_tags(out, fetched)

    @staticmethod
    def _partition_tags(out: bytearray, fetched: FetchedPartition) -> None:
        out.append((fetched.diverging is not None) + (fetched.leader is not None))
        if fetched.diverging is not None:
            out += b"\x00\x0d" + _DIVERGING.pack(*fetched.diverging) + b"\x00"
        if fetched.leader is not None:
            out += b"\x01\x09" + _LEADER.pack(*fetched.leader) + b"\x00"

    def finish(self, endpoints: list[Endpoint]) -> list[Part]:
        """The parts to send; `endpoints` name the leaders hinted at (version 16 on)."""
        out = self._out
        if self._flexible:
            if endpoints and self._version >= 16:
                out.append(1)
                body = _encode_endpoints(endpoints)
                out.append(0)
                _write_varint(out, len(body))
                out += body
            else:
                out.append(0)
        parts = self._parts
        parts.append(bytes(out))
        first = bytearray(parts[0])  # type: ignore[arg-type]
        size = self._slices_size - 4
        for part in parts:
            if part.__class__ is bytes:
                size += len(part)
        _INT32.pack_into(first, 0, size)
        parts[0] = bytes(first)
        return parts


def _encode_endpoints(endpoints: list[Endpoint]) -> bytearray:
    out = bytearray()
    _write_varint(out, len(endpoints) + 1)
    for node_id, host, port, rack in endpoints:
        out += _INT32.pack(node_id)
        text = host.encode()
        _write_varint(out, len(text) + 1)
        out += text
        out += _INT32.pack(port)
        if rack is None:
            out.append(0)
        else:
            text = rack.encode()
            _write_varint(out, len(text) + 1)
            out += text
        out.append(0)
    return out


_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


def not_produced(index: int, error: ErrorCode) -> ProducedPartition:
    """The answer of a partition without records."""
    return index, int(error), -1, -1, -1


def refuse_produce(request: Produce, correlation_id: int, version: int, error: ErrorCode) -> list[Part]:
    """The answer that refuses each partition; no bytes if the client waits for none."""
    topics = [
        (name, topic_id, [not_produced(index, error) for index, _ in partitions])
        for name, topic_id, partitions in request.topics
    ]
    return [] if request.acks == 0 else [encode_produced(correlation_id, version, topics, 0)]


def refuse_fetch(request: Fetch, correlation_id: int, version: int, error: ErrorCode) -> list[Part]:
    """The answer that refuses the named partitions, or, for a session's fault or without any, the whole request."""
    topics = [] if error in _SESSION_ERRORS else request.topics
    answer = FetchAnswer(
        correlation_id,
        version,
        throttle_ms=0,
        error=0 if topics else int(error),
        session_id=0,
        topics=len(topics),
    )
    for name, topic_id, partitions in topics:
        answer.topic(name, topic_id, [FetchedPartition(asked[0], int(error)) for asked in partitions])
    return answer.finish([])
