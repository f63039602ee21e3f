"""The metadata and assignments of classic members, read and written by the coordinator.

A classic group passes these bytes on unread. Where consumer and classic members share a group, the coordinator takes
subscriptions out of them and puts assignments into them, in the version of the member.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.groups.consumer_values import Partitions, partitions_of
from ottla.groups.topics import Topics
from ottla.messages.consumer_protocol import (
    AssignedTopicPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedTopicPartitions,
)
from ottla.schema.codec import MalformedMessage, decoder, encoder

_NEWEST = 3
_INT16 = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class EmbeddedSubscription:
    """The topics that a member wants to read, and the partitions that it owns by its own words."""

    topics: frozenset[str]
    owned: Partitions
    rack_id: str | None


def read_subscription(metadata: bytes, topics: Topics) -> EmbeddedSubscription:
    """The subscription in a member's metadata; MalformedMessage if it is none.

    Each version begins as version 0 does, and some clients write that much under a higher number.
    """
    view, version = memoryview(metadata), _version(metadata)
    try:
        read = decoder(ConsumerProtocolSubscription, version)(view, _INT16.size)[0]
    except MalformedMessage:
        read = decoder(ConsumerProtocolSubscription, 0)(view, _INT16.size)[0]
    return EmbeddedSubscription(frozenset(read.topics), _by_id(read.owned_partitions, topics), read.rack_id)


def read_assignment(assignment: bytes, topics: Topics) -> Partitions:
    """The partitions in a member's assignment, of topics that exist; no bytes are no partitions."""
    if not assignment:
        return {}
    read = decoder(ConsumerProtocolAssignment, _version(assignment))(memoryview(assignment), _INT16.size)[0]
    return _by_id(read.assigned_partitions, topics)


def write_assignment(partitions: Mapping[bytes, Iterable[int]], topics: Topics, *, metadata: bytes) -> bytes:
    """An assignment in the version of a member's metadata, without deleted topics."""
    version = _version(metadata)
    out = bytearray(_INT16.pack(version))
    assigned = []
    for topic_id, indexes in partitions.items():
        shape = topics.by_id(topic_id)
        if shape is not None:
            assigned.append(AssignedTopicPartitions(topic=shape.name, partitions=sorted(indexes)))
    assigned.sort(key=lambda each: each.topic)
    encoder(ConsumerProtocolAssignment, version)(ConsumerProtocolAssignment(assigned_partitions=assigned), out)
    return bytes(out)


def _version(content: bytes) -> int:
    """The version in a member's bytes; versions newer than ours begin as our newest does."""
    if len(content) < _INT16.size:
        raise MalformedMessage("a classic member's bytes end before their version does")
    version = int(_INT16.unpack_from(content)[0])
    if version < 0:
        raise MalformedMessage(f"a classic member's bytes are of version {version}")
    return min(version, _NEWEST)


def _by_id(named: Iterable[OwnedTopicPartitions] | Iterable[AssignedTopicPartitions], topics: Topics) -> Partitions:
    shapes = ((topics.by_name(each.topic), each.partitions) for each in named)
    return partitions_of((shape.topic_id, partitions) for shape, partitions in shapes if shape is not None)
