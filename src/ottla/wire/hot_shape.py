"""The common part of one producer's requests to single partitions of a topic.

Only the correlation id, the partition's index and the records differ. broker/requests/dispatch.py keeps the shape of a
connection's last Produce. If the next has the same bytes around these, it need not be decoded again, and the answer is
the last one with other numbers (bench/hot_path.py).
"""

from __future__ import annotations

from struct import Struct

from ottla.wire.hot import Produce
from ottla.wire.hot_answers import encode_produced

_INT32 = Struct(">i")
_INDEX_AND_SIZE = Struct(">ii")
_AFTER_CORRELATION = 8
_FLEXIBLE = 9
_EMPTY_TAGS = b"\x00\x00\x00"
"""The empty tagged fields of the partition, the topic and the request."""
_ACKS = (-1, 0, 1)
NEVER = -1


class ProduceShape:
    """Made of a whole request by `shape_of`; `match` finds the partition and the records of the next one."""

    __slots__ = (
        "_answer",
        "_answer_size",
        "_end",
        "_flexible",
        "_head",
        "_prefix",
        "_tail",
        "acks",
        "allowed_at",
        "by_id",
        "name",
        "timeout_ms",
        "topic",
        "topic_id",
        "version",
    )

    def __init__(self, prefix: bytes, version: int, request: Produce) -> None:
        ((name, topic_id, ((index, _),)),) = request.topics
        self._prefix = prefix
        self._end = _AFTER_CORRELATION + len(prefix)
        self._flexible = version >= _FLEXIBLE
        self.version = version
        self.acks = request.acks
        self.allowed_at = NEVER
        """The version of the rights with which the connection may write to the topic."""
        self.timeout_ms = request.timeout_ms
        self.name, self.topic_id = name, topic_id
        self.by_id = not name
        self.topic = topic_id if self.by_id else name
        """With the partition's index the key under which broker/replicas/reconcile.py has it."""
        whole = encode_produced(0, version, [(name, topic_id, [(index, 0, 0, 0, 0)])], 0)
        at = whole.index(_INT32.pack(index) + bytes(26), 8)
        self._head = whole[8:at]
        self._tail = whole[at + 4 + 26 :]
        self._answer = Struct(f">ii{len(self._head)}sihqqq{len(self._tail)}s")
        self._answer_size = len(whole) - 4

    def match(self, frame: memoryview) -> tuple[int, memoryview] | None:
        """The partition and the records of a request of this shape; None if its shape is another."""
        end = self._end
        if frame[_AFTER_CORRELATION:end] != self._prefix:
            return None
        if not self._flexible:
            at = end + 8
            if at > len(frame):
                return None
            index, size = _INDEX_AND_SIZE.unpack_from(frame, end)
            return None if size != len(frame) - at else (index, frame[at:])
        size = shift = 0
        at, last = end + 4, min(len(frame), end + 9)
        while at < last:
            byte = frame[at]
            at += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                if size == 0 or at + size - 1 + 3 != len(frame) or frame[-3:] != _EMPTY_TAGS:
                    return None
                return _INT32.unpack_from(frame, end)[0], frame[at:-3]
            shift += 7
        return None

    def answer(
        self, correlation_id: int, index: int, base_offset: int, append_time_ms: int, log_start_offset: int
    ) -> bytes:
        """The answer to a request of this shape that succeeded."""
        return self._answer.pack(
            self._answer_size,
            correlation_id,
            self._head,
            index,
            0,
            base_offset,
            append_time_ms,
            log_start_offset,
            self._tail,
        )

    def refusal(self, correlation_id: int, index: int, error: int) -> bytes:
        """The answer to a request of this shape that failed."""
        return self._answer.pack(self._answer_size, correlation_id, self._head, index, error, -1, -1, -1, self._tail)


def shape_of(frame: memoryview, version: int, request: Produce) -> ProduceShape | None:
    """The shape of a request to one partition without a transaction; None for others, and for the oldest answers."""
    if version < 5 or request.transactional_id is not None or request.acks not in _ACKS or len(request.topics) != 1:
        return None
    partitions = request.topics[0][2]
    if len(partitions) != 1 or partitions[0][1] is None:
        return None
    size = len(partitions[0][1])
    if version < _FLEXIBLE:
        start = len(frame) - size - 4
    elif frame[-3:] != _EMPTY_TAGS:
        return None
    else:
        start = len(frame) - 3 - size - ((size + 1).bit_length() + 6) // 7
    shape = ProduceShape(bytes(frame[_AFTER_CORRELATION : start - 4]), version, request)
    return shape if shape.match(frame) == partitions[0] else None
