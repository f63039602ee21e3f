"""Committed offsets of groups: from the records of their topic, and translated by each partition's map. Pure.

The topic is copied with the others, so an offset that was committed in a transaction is there if its records are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.model import CommittedOffset
from ottla.kernel.ids import TopicPartition
from ottla.messages.group_records import (
    LEGACY_OFFSET_COMMIT_TYPE,
    OFFSET_COMMIT_TYPE,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.mirror.offset_map import OffsetMap
from ottla.records.reader import Record
from ottla.schema.codec import decode

GroupOffsets = dict[str, dict[TopicPartition, CommittedOffset]]


def take_commits(records: Iterable[Record], groups: GroupOffsets) -> None:
    """Apply records of the groups' topic, in their order; those about members are passed over."""
    for record in records:
        key = record.key or b""
        if int.from_bytes(key[:2], "big") not in (LEGACY_OFFSET_COMMIT_TYPE, OFFSET_COMMIT_TYPE) or len(key) < 2:
            continue
        place = decode(OffsetCommitKey, 0, key[2:])
        offsets = groups.setdefault(place.group, {})
        partition = TopicPartition(place.topic, place.partition)
        if record.value is None:
            offsets.pop(partition, None)
            continue
        value = decode(OffsetCommitValue, int.from_bytes(record.value[:2], "big"), record.value[2:])
        offsets[partition] = CommittedOffset(value.offset, value.metadata)


def translated(groups: GroupOffsets, maps: Mapping[TopicPartition, OffsetMap]) -> GroupOffsets:
    """The offsets as they are in the restored topics; partitions that were not restored are left out.

    A group before the first record goes on at the beginning, one behind the last record at the end.
    """
    found: GroupOffsets = {}
    for group, offsets in sorted(groups.items()):
        moved = {
            partition: CommittedOffset(maps[partition].translate(committed.offset) or 0, committed.metadata)
            for partition, committed in sorted(offsets.items())
            if partition in maps
        }
        if moved:
            found[group] = moved
    return found
