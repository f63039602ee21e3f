"""The records of `__consumer_offsets`, byte for byte Kafka's, and the partition of a group.

A key begins with an int16, its kind; a value with an int16, its version. The entries of
groups of the consumer protocol are made in consumer_entries.py.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from ottla.groups.values import GroupEntry
from ottla.kernel.shards import partition_for
from ottla.messages import consumer_group_records as consumer
from ottla.messages.group_records import (
    GROUP_METADATA_TYPE,
    LEGACY_OFFSET_COMMIT_TYPE,
    OFFSET_COMMIT_TYPE,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.schema.codec import MalformedMessage, decoder, encoder

__all__ = [
    "decode_entry",
    "encode_entry",
    "group_entry",
    "is_offset",
    "offset_entry",
    "partition_for",
    "subscribed_topics",
    "writable",
]

_GROUP_METADATA_VERSION = 3
_OFFSET_COMMIT_VERSION = 4
_LONGEST_STRING = 0x7FFF
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class _Form(NamedTuple):
    """One type of record: its classes, the version that is written, the newest that is read."""

    key: type[Any]
    value: type[Any]
    written: int
    newest: int


_OFFSET_COMMIT = _Form(OffsetCommitKey, OffsetCommitValue, _OFFSET_COMMIT_VERSION, 4)
_FORMS = {
    LEGACY_OFFSET_COMMIT_TYPE: _OFFSET_COMMIT,
    OFFSET_COMMIT_TYPE: _OFFSET_COMMIT,
    GROUP_METADATA_TYPE: _Form(GroupMetadataKey, GroupMetadataValue, _GROUP_METADATA_VERSION, 4),
    consumer.METADATA_TYPE: _Form(consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue, 0, 0),
    consumer.PARTITION_METADATA_TYPE: _Form(
        consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue, 0, 0
    ),
    consumer.MEMBER_METADATA_TYPE: _Form(
        consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue, 0, 0
    ),
    consumer.TARGET_ASSIGNMENT_METADATA_TYPE: _Form(
        consumer.ConsumerGroupTargetAssignmentMetadataKey, consumer.ConsumerGroupTargetAssignmentMetadataValue, 0, 0
    ),
    consumer.TARGET_ASSIGNMENT_MEMBER_TYPE: _Form(
        consumer.ConsumerGroupTargetAssignmentMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue, 0, 0
    ),
    consumer.CURRENT_MEMBER_ASSIGNMENT_TYPE: _Form(
        consumer.ConsumerGroupCurrentMemberAssignmentKey, consumer.ConsumerGroupCurrentMemberAssignmentValue, 0, 0
    ),
    consumer.REGULAR_EXPRESSION_TYPE: _Form(
        consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue, 0, 0
    ),
}
"""The record types by the int16 that a key begins with."""
_OFFSET_KINDS = (_INT16.pack(OFFSET_COMMIT_TYPE), _INT16.pack(LEGACY_OFFSET_COMMIT_TYPE))
_TYPES = {form.key: number for number, form in _FORMS.items()}


def writable(text: str) -> bool:
    """True if a record can hold the text: its length is an int16 there, while newer requests may bring more."""
    return len(text) <= _LONGEST_STRING // 4 or len(text.encode("utf-8", "surrogatepass")) <= _LONGEST_STRING


def offset_entry(group_id: str, topic: str, partition: int, value: OffsetCommitValue | None) -> GroupEntry:
    """A committed offset, or its tombstone. Only version 1 can hold an expiry of its own."""
    version = 1 if value is not None and value.expire_timestamp != -1 else _OFFSET_COMMIT_VERSION
    return GroupEntry(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value, version)


def group_entry(group_id: str, value: GroupMetadataValue | None) -> GroupEntry:
    return GroupEntry(GroupMetadataKey(group=group_id), value, _GROUP_METADATA_VERSION)


def encode_entry(entry: GroupEntry) -> tuple[bytes, bytes | None]:
    """The key and value of the record."""
    key = bytearray(_INT16.pack(_TYPES[type(entry.key)]))
    encoder(type(entry.key), 0)(entry.key, key)
    if entry.value is None:
        return bytes(key), None
    value = bytearray(_INT16.pack(entry.value_version))
    encoder(type(entry.value), entry.value_version)(entry.value, value)
    return bytes(key), bytes(value)


def decode_entry(key: bytes, value: bytes | None) -> GroupEntry | None:
    """The entry behind a record; None for kinds of keys that belong to other group protocols.

    Raises MalformedMessage where the bytes do not fit their kind.
    """
    view = memoryview(key)
    form = _FORMS.get(_version(view))
    if form is None:
        return None
    entry_key = decoder(form.key, 0)(view, 2)[0]
    if value is None:
        return GroupEntry(entry_key, None, form.written)
    version = _version(memoryview(value))
    if not 0 <= version <= form.newest:
        raise MalformedMessage(f"a group record's value of version {version}")
    return GroupEntry(entry_key, decoder(form.value, version)(memoryview(value), 2)[0], version)


def is_offset(key: bytes) -> bool:
    """True if the record of this key is a committed offset."""
    return key[:2] in _OFFSET_KINDS


def _version(view: memoryview) -> int:
    if len(view) < 2:
        raise MalformedMessage("a group record of less than two bytes")
    return int(_INT16.unpack_from(view)[0])


def subscribed_topics(metadata: list[bytes]) -> frozenset[str] | None:
    """The topics in consumers' subscriptions; None where one cannot be read.

    Version 0 of the subscription (version, topics) is how each later version begins.
    """
    topics: set[str] = set()
    try:
        for subscription in metadata:
            (count,) = _INT32.unpack_from(subscription, 2)
            if _version(memoryview(subscription)) < 0 or not 0 <= count <= len(subscription) // 2:
                return None
            position = 6
            for _ in range(count):
                (length,) = _INT16.unpack_from(subscription, position)
                position += 2 + length
                if length < 0 or position > len(subscription):
                    return None
                topics.add(subscription[position - length : position].decode("utf-8"))
    except (struct.error, UnicodeDecodeError, MalformedMessage):
        return None
    return frozenset(topics)
