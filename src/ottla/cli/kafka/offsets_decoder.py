"""Records of `__consumer_offsets` as JSON, as `kafka-dump-log --offsets-decoder` prints them."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection
from typing import Any

from ottla.client.consume.group_protocol import decode_assignment, decode_subscription
from ottla.client.errors import ProtocolViolation
from ottla.kernel.ids import TopicPartition, topic_id_text
from ottla.messages import consumer_group_records as consumer
from ottla.messages import group_records as records
from ottla.records.reader import Record
from ottla.schema.codec import MalformedMessage, decode
from ottla.schema.message import Field, schema_of
from ottla.schema.types import Array

_TYPES: dict[int, tuple[type[Any], type[Any]]] = {
    records.LEGACY_OFFSET_COMMIT_TYPE: (records.OffsetCommitKey, records.OffsetCommitValue),
    records.OFFSET_COMMIT_TYPE: (records.OffsetCommitKey, records.OffsetCommitValue),
    records.GROUP_METADATA_TYPE: (records.GroupMetadataKey, records.GroupMetadataValue),
    consumer.METADATA_TYPE: (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
    consumer.PARTITION_METADATA_TYPE: (
        consumer.ConsumerGroupPartitionMetadataKey,
        consumer.ConsumerGroupPartitionMetadataValue,
    ),
    consumer.MEMBER_METADATA_TYPE: (
        consumer.ConsumerGroupMemberMetadataKey,
        consumer.ConsumerGroupMemberMetadataValue,
    ),
    consumer.TARGET_ASSIGNMENT_METADATA_TYPE: (
        consumer.ConsumerGroupTargetAssignmentMetadataKey,
        consumer.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    consumer.TARGET_ASSIGNMENT_MEMBER_TYPE: (
        consumer.ConsumerGroupTargetAssignmentMemberKey,
        consumer.ConsumerGroupTargetAssignmentMemberValue,
    ),
    consumer.CURRENT_MEMBER_ASSIGNMENT_TYPE: (
        consumer.ConsumerGroupCurrentMemberAssignmentKey,
        consumer.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    consumer.REGULAR_EXPRESSION_TYPE: (
        consumer.ConsumerGroupRegularExpressionKey,
        consumer.ConsumerGroupRegularExpressionValue,
    ),
}


def decode_record(record: Record) -> tuple[str, str]:
    """Key and payload as texts; records of other types keep their bytes as Base64."""
    kind = int.from_bytes((record.key or b"")[:2], "big")
    if record.key is None or kind not in _TYPES:
        return _raw(record.key), _raw(record.value)
    key_class, value_class = _TYPES[kind]
    try:
        key = {"type": str(kind), "data": _json(decode(key_class, 0, record.key[2:]), 0)}
        if record.value is None:
            return _text(key), "<DELETE>"
        version = int.from_bytes(record.value[:2], "big")
        value = {"version": str(version), "data": _json(decode(value_class, version, record.value[2:]), version)}
    except (MalformedMessage, ValueError) as fault:
        return f"<unreadable: {fault}>", _raw(record.value)
    return _text(key), _text(value)


def consumed_text(key: bytes | None, value: bytes | None, kinds: Collection[int]) -> str:
    """A record as OffsetsMessageFormatter and GroupMetadataMessageFormatter print it; empty for other types."""
    kind = int.from_bytes((key or b"")[:2], "big")
    if key is None or kind not in kinds:
        return ""
    key_class, value_class = _TYPES[kind]
    told: dict[str, object] = {"key": {"type": kind, "data": _json(decode(key_class, 0, key[2:]), 0)}, "value": None}
    if value is not None:
        version = int.from_bytes(value[:2], "big")
        content = decode(value_class, version, value[2:])
        told["value"] = {"version": version, "data": _json(content, version, inside=False)}
    return _text(told)


def _raw(content: bytes | None) -> str:
    return "null" if content is None else base64.b64encode(content).decode()


def _text(content: object) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def _json(message: Any, version: int, *, inside: bool = True) -> dict[str, object]:
    """A message's fields under Kafka's JSON names; tagged ones only where they differ from their default.

    `inside`: the bytes that members wrote for one another are decoded too, not left as Base64.
    """
    fresh = type(message)()
    told: dict[str, object] = {}
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if not field.is_in(version) or (field.tag is not None and value == getattr(fresh, field.name)):
            continue
        first, *rest = field.name.split("_")
        told[first + "".join(word.capitalize() for word in rest)] = _value(field, value, version, inside=inside)
    return told


def _subscription(content: bytes) -> object:
    """A member's subscription as ConsumerProtocolSubscription of its own version."""
    version = int.from_bytes(content[:2], "big")
    found = decode_subscription(content)
    told: dict[str, object] = {"topics": list(found.topics), "userData": _base64(found.user_data)}
    if version >= 1:
        told["ownedPartitions"] = _partitions(found.owned)
    if version >= 2:
        told["generationId"] = found.generation
    if version >= 3:
        told["rackId"] = found.rack
    return told


def _assignment(content: bytes) -> object:
    return {"assignedPartitions": _partitions(decode_assignment(content)), "userData": None}


def _partitions(partitions: tuple[TopicPartition, ...]) -> list[dict[str, object]]:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


_INSIDE = {"subscription": _subscription, "assignment": _assignment}


def _value(field: Field, value: Any, version: int, *, inside: bool) -> object:
    if inside and field.name in _INSIDE and value:
        try:
            return _INSIDE[field.name](bytes(value))
        except ProtocolViolation:
            return _base64(bytes(value))
    if field.struct is not None and value is not None:
        if isinstance(field.kind, Array):
            return [_json(each, version, inside=inside) for each in value]
        return _json(value, version, inside=inside)
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        return topic_id_text(raw) if repr(field.kind) == "uuid" else base64.b64encode(raw).decode()
    plain: object = value
    return plain
