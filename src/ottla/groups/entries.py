"""The records of `__consumer_offsets`, byte for byte Kafka's, and which of its partitions a group lives in.

A key begins with an int16 that says what it is the key of; a value with an int16 that is its version.
"""

from __future__ import annotations

import struct

from ottla.groups.values import Entry
from ottla.kernel.shards import partition_for
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
    "offset_entry",
    "partition_for",
    "subscribed_topics",
    "writable",
]

_GROUP_METADATA_VERSION = 3
_NEWEST_VALUE_VERSION = 4
_LONGEST_STRING = 0x7FFF
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def writable(text: str) -> bool:
    """Whether a record can hold it: its length is an int16 there, while newer requests may bring more."""
    return len(text) <= _LONGEST_STRING // 4 or len(text.encode("utf-8", "surrogatepass")) <= _LONGEST_STRING


def offset_entry(group_id: str, topic: str, partition: int, value: OffsetCommitValue | None) -> Entry:
    """A committed offset, or its tombstone. One that carries its own expiry can only be said in version 1."""
    version = 1 if value is not None and value.expire_timestamp != -1 else _NEWEST_VALUE_VERSION
    return Entry(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value, version)


def group_entry(group_id: str, value: GroupMetadataValue | None) -> Entry:
    return Entry(GroupMetadataKey(group=group_id), value, _GROUP_METADATA_VERSION)


def encode_entry(entry: Entry) -> tuple[bytes, bytes | None]:
    """The key and value of the record."""
    key = bytearray()
    if isinstance(entry.key, OffsetCommitKey):
        key += _INT16.pack(OFFSET_COMMIT_TYPE)
        encoder(OffsetCommitKey, 0)(entry.key, key)
    else:
        key += _INT16.pack(GROUP_METADATA_TYPE)
        encoder(GroupMetadataKey, 0)(entry.key, key)
    if entry.value is None:
        return bytes(key), None
    value = bytearray(_INT16.pack(entry.value_version))
    if isinstance(entry.value, OffsetCommitValue):
        encoder(OffsetCommitValue, entry.value_version)(entry.value, value)
    else:
        encoder(GroupMetadataValue, entry.value_version)(entry.value, value)
    return bytes(key), bytes(value)


def decode_entry(key: bytes, value: bytes | None) -> Entry | None:
    """The entry behind a record; None for kinds of keys that belong to other group protocols.

    Raises MalformedMessage where the bytes are not what they say.
    """
    view = memoryview(key)
    kind = _version(view)
    if kind in (OFFSET_COMMIT_TYPE, LEGACY_OFFSET_COMMIT_TYPE):
        offset_key, _ = decoder(OffsetCommitKey, 0)(view, 2)
        if value is None:
            return Entry(offset_key, None, _NEWEST_VALUE_VERSION)
        version = _value_version(value)
        return Entry(offset_key, decoder(OffsetCommitValue, version)(memoryview(value), 2)[0], version)
    if kind == GROUP_METADATA_TYPE:
        group_key, _ = decoder(GroupMetadataKey, 0)(view, 2)
        if value is None:
            return Entry(group_key, None, _GROUP_METADATA_VERSION)
        version = _value_version(value)
        return Entry(group_key, decoder(GroupMetadataValue, version)(memoryview(value), 2)[0], version)
    return None


def _value_version(value: bytes) -> int:
    version = _version(memoryview(value))
    if not 0 <= version <= _NEWEST_VALUE_VERSION:
        raise MalformedMessage(f"a group record's value of version {version}")
    return version


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
