"""Replicas found in two log directories of this broker: drops one of the two, or refuses the start.

Called by log_directories.py before it recovers any log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk
from ottla.metadata.state import Topic
from ottla.storage import recovery
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.found import FoundPartition
from ottla.storage.directory.ownership import DirectoryRefused

Place = tuple[FoundPartition, LogDirectory]


def half_made_twins(
    disk: Disk,
    online: Sequence[LogDirectory],
    topic_of: Callable[[FoundPartition], Topic | None],
    known: Collection[str],
    is_older: Callable[[LogDirectory], bool],
) -> set[str]:
    """Paths to drop: replicas begun in one directory and made in another after a disk failed or was full, and those in
    an older directory that were moved out of it since.

    Any other replica in two directories that was not being moved is refused, as it is not known which copy is right.
    `known`: ids of the directories in this broker's last registration.
    """
    half_made: set[str] = set()
    places: dict[tuple[bytes | None, TopicPartition], Place] = {}
    for directory in online:
        for found in directory.found:
            if topic_of(found) is None:
                continue
            name = TopicPartition(found.topic, found.partition)
            first, beside = places.setdefault((found.topic_id, name), (found, directory))
            moved = found.beside == beside.directory_id or first.beside == directory.directory_id
            if first is found or (moved and is_older(directory) == is_older(beside)):
                continue
            left = _left(disk, (found, directory), (first, beside), known, is_older)
            if left is None:
                raise DirectoryRefused(
                    f"{name} lies in two log directories, {first.path} and {found.path}, and only one of them can "
                    "be the replica. Move the older one out of its directory (compare the newest files in both; if "
                    "other brokers hold the partition, either will do), and start again."
                )
            half_made.add(left.path)
            if left is first:
                places[found.topic_id, name] = found, directory
    return half_made


def _left(
    disk: Disk, one: Place, other: Place, known: Collection[str], is_older: Callable[[LogDirectory], bool]
) -> FoundPartition | None:
    """The one of two that is not the replica: it is in an older directory, or never held a record.

    If both never did, the one in a directory that is new since this broker's last registration. None if both held some,
    or cannot be read.
    """
    if is_older(one[1]) != is_older(other[1]):
        return one[0] if is_older(one[1]) else other[0]
    empty: list[Place] = []
    for found, directory in (one, other):
        name = TopicPartition(found.topic, found.partition)
        if any(offsets.get(name) for _, offsets in directory.offsets.by_name()):
            continue
        with suppress(OSError):  # an unreadable one may hold records
            if recovery.never_held(disk, found.path):
                empty.append((found, directory))
    empty.sort(key=lambda place: place[1].directory_id in known)
    return empty[0][0] if empty else None
