"""The bytes that members of a classic consumer group exchange: subscriptions and assignments.

Brokers pass them on unread. Kafka's ConsumerProtocol, versions 0 to 3; later ones are read as 3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from ottla.client.errors import ProtocolViolation
from ottla.kernel.ids import TopicPartition

PROTOCOL_TYPE = "consumer"
_VERSION = 3
_SHORT = Struct(">h")
_INT = Struct(">i")


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The topics that one member wants, and the partitions that it holds (for sticky assignors)."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    instance_id: str | None = None
    """Not part of the bytes: the broker adds it."""


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def int16(self) -> int:
        (value,) = _SHORT.unpack_from(self._content, self._position)
        self._position += 2
        return int(value)

    def int32(self) -> int:
        (value,) = _INT.unpack_from(self._content, self._position)
        self._position += 4
        return int(value)

    def take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._content):
            raise ProtocolViolation("a member's bytes end too early")
        taken = self._content[self._position : end]
        self._position = end
        return taken

    def string(self) -> str:
        return self.take(self.int16()).decode("utf-8", "replace")

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self.take(length).decode("utf-8", "replace")

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self.take(length)

    def count(self, least: int) -> int:
        """A count of elements of at least `least` bytes each."""
        count = self.int32()
        if count * least > len(self._content) - self._position:
            raise ProtocolViolation("a member's bytes claim more than they hold")
        return max(count, 0)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.count(6)):
            topic = self.string()
            found += [TopicPartition(topic, self.int32()) for _ in range(self.count(4))]
        return tuple(found)

    @property
    def ended(self) -> bool:
        return self._position >= len(self._content)


def encode_subscription(subscription: MemberSubscription) -> bytes:
    out = bytearray(_SHORT.pack(_VERSION))
    out += _INT.pack(len(subscription.topics))
    for topic in subscription.topics:
        _string(out, topic)
    _bytes(out, subscription.user_data)
    _partitions(out, subscription.owned)
    out += _INT.pack(subscription.generation)
    if subscription.rack is None:
        out += _SHORT.pack(-1)
    else:
        _string(out, subscription.rack)
    return bytes(out)


def decode_subscription(content: bytes, instance_id: str | None = None) -> MemberSubscription:
    """ProtocolViolation where the bytes are not a subscription."""
    reader = _Reader(content)
    try:
        version = reader.int16()
        topics = tuple(reader.string() for _ in range(reader.count(2)))
        user_data = reader.nullable_bytes()
        owned = reader.partitions() if version >= 1 and not reader.ended else ()
        generation = reader.int32() if version >= 2 and not reader.ended else -1
        rack = reader.nullable_string() if version >= 3 and not reader.ended else None
    except StructError as fault:
        raise ProtocolViolation(f"not a subscription: {fault}") from fault
    return MemberSubscription(topics, user_data, owned, generation, rack, instance_id)


def encode_assignment(partitions: Collection[TopicPartition], user_data: bytes | None = None) -> bytes:
    out = bytearray(_SHORT.pack(_VERSION))
    _partitions(out, partitions)
    _bytes(out, user_data)
    return bytes(out)


def decode_assignment(content: bytes) -> tuple[TopicPartition, ...]:
    """The partitions assigned; none for empty bytes."""
    if not content:
        return ()
    reader = _Reader(content)
    try:
        reader.int16()
        return reader.partitions()
    except StructError as fault:
        raise ProtocolViolation(f"not an assignment: {fault}") from fault


def encode_sticky_data(owned: Collection[TopicPartition], generation: int) -> bytes:
    """StickyAssignor's user data, version 1: what the member had in a generation."""
    out = bytearray()
    _partitions(out, owned)
    out += _INT.pack(generation)
    return bytes(out)


def decode_sticky_data(content: bytes | None) -> tuple[tuple[TopicPartition, ...], int]:
    """Owned partitions and generation; nothing for bytes that are none."""
    if not content:
        return (), -1
    reader = _Reader(content)
    try:
        owned = reader.partitions()
        return owned, -1 if reader.ended else reader.int32()
    except (StructError, ProtocolViolation):
        return (), -1


def _string(out: bytearray, text: str) -> None:
    raw = text.encode()
    out += _SHORT.pack(len(raw))
    out += raw


def _bytes(out: bytearray, content: bytes | None) -> None:
    out += _INT.pack(-1 if content is None else len(content))
    out += content or b""


def _partitions(out: bytearray, partitions: Iterable[TopicPartition]) -> None:
    grouped: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        grouped.setdefault(partition.topic, []).append(partition.partition)
    out += _INT.pack(len(grouped))
    for topic, indexes in grouped.items():
        _string(out, topic)
        out += _INT.pack(len(indexes))
        for index in indexes:
            out += _INT.pack(index)
