"""Replicas found in two log directories of this broker: which of the two is the replica, if that can be known.

Called by log_directories.py before it recovers any log. Where it cannot be known, neither is opened: that replica alone
is offline, or fetched anew from other brokers (unreadable.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk
from ottla.metadata.state import Topic
from ottla.storage import recovery
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.found import FoundPartition

Place = tuple[FoundPartition, LogDirectory]


class Twins(NamedTuple):
    """The folders of replicas that were found more than once, by path, sorted by what they are."""

    unmade: set[str]
    """Begun in one directory and made in another after a disk failed or was full: they never held a record."""
    older: dict[str, str]
    """Moved out of an older directory since: not the replica, with the reason."""
    undecided: dict[str, str]
    """Either may be the replica, with the reason why it is not opened."""


def sort_twins(
    disk: Disk,
    online: Sequence[LogDirectory],
    topic_of: Callable[[FoundPartition], Topic | None],
    known: Collection[str],
    is_older: Callable[[LogDirectory], bool],
) -> Twins:
    """Sort the folders of replicas that lie in several directories and were not being moved between them.

    `known`: ids of the directories in this broker's last registration.
    """
    twins = Twins(set(), {}, {})
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
            if left is None or first.path in twins.undecided:
                twins.undecided[first.path] = _which_is_it(name, found.path)
                twins.undecided[found.path] = _which_is_it(name, first.path)
                continue
            kept = found if left is first else first
            if is_older(directory) != is_older(beside):
                twins.older[left.path] = f"it is in an older copy of its log directory; the replica is {kept.path}"
            else:
                twins.unmade.add(left.path)
            if left is first:
                places[found.topic_id, name] = found, directory
    return twins


def _which_is_it(name: TopicPartition, other: str) -> str:
    return (
        f"{name} lies in another log directory too, {other}, and only one of the two can be the replica. If no other "
        "broker holds the partition, move the older one out of its directory (compare the newest files in both), and "
        "start again"
    )


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
