"""Folders whose name is not that of the partition that they hold: none of them is served (rule B4).

Called by log_directories.py before it recovers any log. The topic id in `partition.metadata` gives the topic's name by
the metadata, and ottla's part of that file gives the partition; in files without that part, the folder's name does. A
copy of a replica whose own folder is here is set aside. Else one replica is offline, or fetched anew from other brokers
(unreadable.py): the one whose name the folder has, or, if no replica here has that name, the one that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.kernel.ids import TopicId, TopicPartition
from ottla.metadata.state import Metadata, Topic
from ottla.storage.checkpoint import PARTITION_METADATA
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.found import FoundPartition


class MisnamedFolder(NamedTuple):
    """A folder that keeps a replica offline."""

    topic: Topic
    """The replica's topic."""
    found: FoundPartition
    """The folder, with the replica's name."""
    reason: str


class Misnamed(NamedTuple):
    """Misnamed folders, by path."""

    strays: dict[str, str]
    """To be set aside, with the reasons."""
    kept: dict[str, MisnamedFolder]


def held_by(found: FoundPartition, metadata: Metadata) -> tuple[Topic, int] | None:
    """The topic and partition that a folder holds; None if the metadata does not know its topic id."""
    topic = None if found.topic_id is None else metadata.topics.get(TopicId(found.topic_id))
    if topic is None:
        return None
    return topic, found.partition if found.recorded is None else found.recorded.partition


def sort_misnamed(
    online: Sequence[LogDirectory], metadata: Metadata, placed_here: Callable[[Topic, int], bool]
) -> Misnamed:
    """Find the misnamed folders. `placed_here` tells whether a partition has a replica on this broker."""
    right: dict[tuple[bytes, int], str] = {}
    wrong: list[tuple[FoundPartition, Topic, int]] = []
    for found in (one for directory in online for one in directory.found):
        held = held_by(found, metadata)
        if held is None:
            continue
        topic, index = held
        if (found.topic, found.partition) == (topic.name, index):
            right.setdefault((topic.topic_id, index), found.path)
        else:
            wrong.append((found, topic, index))
    misnamed = Misnamed({}, {})
    for found, topic, index in wrong:
        held_place = TopicPartition(topic.name, index)
        reason = f"its {PARTITION_METADATA} says that it holds {held_place}, and its name says another partition"
        named = metadata.topic(found.topic)
        if named is not None and placed_here(named, found.partition):
            claimed, at = named, found.partition
            remedy = f"put the folder of {found.topic}-{found.partition} there, or its {PARTITION_METADATA}"
        else:
            claimed, at = topic, index
            remedy = f"if it is that replica, rename it to {held_place} and start again"
        if not placed_here(claimed, at):
            misnamed.strays[found.path] = reason
        elif (claimed.topic_id, at) in right:
            misnamed.strays[found.path] = (
                f"{reason}; the folder of {claimed.name}-{at} is {right[claimed.topic_id, at]}"
            )
        else:
            replica = found._replace(topic=claimed.name, partition=at)
            misnamed.kept[found.path] = MisnamedFolder(claimed, replica, f"{reason}: {remedy}")
    return misnamed
