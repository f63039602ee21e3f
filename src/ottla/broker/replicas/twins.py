"""Replicas that lie in two log directories of this broker: one of the two is left, or the start is refused.

log_directories.py comes here before it recovers anything.
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
    """Paths of replicas that were begun, and then made in another directory, as a disk failed or was full; and of those
    in an older directory, which were moved out of it since.

    Else a replica that lies in two directories and was not being moved is refused: nobody can say which is right.
    `known`: ids of the directories that this broker registered with last.
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
    """The one of two that is not the replica: it lies in an older directory, or never held a record.

    Of two that never did, rather the one in a directory that was not here when this broker last registered: what lies
    there does not count. None where both held some, or cannot be read.
    """
    if is_older(one[1]) != is_older(other[1]):
        return one[0] if is_older(one[1]) else other[0]
    empty: list[Place] = []
    for found, directory in (one, other):
        name = TopicPartition(found.topic, found.partition)
        if any(offsets.get(name) for _, offsets in directory.checkpoints()):
            continue
        with suppress(OSError):  # what cannot be read may hold some
            if recovery.never_held(disk, found.path):
                empty.append((found, directory))
    empty.sort(key=lambda place: place[1].directory_id in known)
    return empty[0][0] if empty else None
