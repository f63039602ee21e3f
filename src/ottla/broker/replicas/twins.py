"""Replicas found in several log directories of this broker: which of the folders is the replica, if that can be known.

Called by log_directories.py before it recovers any log. Where it cannot be known, none of them is opened: that replica
alone is offline, or fetched anew from other brokers (unreadable.py). The doubt is noted in the folders, so that one of
them is not taken for the replica as soon as the other one's directory fails.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk
from ottla.metadata.state import Topic
from ottla.storage import recovery
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.found import FoundPartition
from ottla.storage.directory.move_notes import MOVING, write_doubt

log = logging.getLogger("ottla.replicas")


class KnownAges(Protocol):
    """Knowledge of how old log directories are."""

    def is_older(self, directory: LogDirectory) -> bool:
        """True if the directory is an older copy of the one that the cluster knows."""

    def was_away(self, directory: LogDirectory) -> bool:
        """True if the broker last ran without the directory."""


class ReplicaFolder(NamedTuple):
    """A folder of a replica, and the log directory that it is in."""

    found: FoundPartition
    directory: LogDirectory


class Twins(NamedTuple):
    """The folders of replicas that were found more than once, by path, sorted by what they are."""

    unmade: set[str]
    """Folders that were begun before the replica was made in another directory: they never held a record."""
    older: dict[str, str]
    """Folders in directories that are older copies, or were away, while another holds the replica; with the reason."""
    undecided: dict[str, str]
    """Folders that each may be the replica, with the reason why none is opened."""


def sort_twins(
    disk: Disk,
    online: Sequence[LogDirectory],
    topic_of: Callable[[FoundPartition], Topic | None],
    known: Collection[str],
    ages: KnownAges,
) -> Twins:
    """Sort the folders of replicas that lie in several directories and were not being moved between them.

    `known`: ids of the directories in this broker's last registration.
    """
    twins = Twins(set(), {}, {})
    places: dict[tuple[bytes | None, TopicPartition], list[ReplicaFolder]] = {}
    for directory in online:
        for found in directory.found:
            if topic_of(found) is not None:
                key = found.topic_id, TopicPartition(found.topic, found.partition)
                places.setdefault(key, []).append(ReplicaFolder(found, directory))
    here = {directory.directory_id for directory in online}
    for several in places.values():
        left = _without_unneeded(disk, several, known, ages, twins) if len(several) > 1 else several
        missing = sorted({one for place in left for one in place.found.doubted} - here)
        if len(left) > 1 and not _is_a_move(left):
            _doubt(disk, left, twins)
        elif missing:
            twins.undecided[left[0].found.path] = (
                f"it lay in the log directory {missing[0]} too, which is not here, and may be newer there. Bring that "
                f"directory back, or remove {posixpath.join(left[0].found.path, MOVING)} to take this copy"
            )
        elif left[0].found.doubted:
            _settle(disk, left[0].found)
    return twins


def _without_unneeded(
    disk: Disk, several: Sequence[ReplicaFolder], known: Collection[str], ages: KnownAges, twins: Twins
) -> list[ReplicaFolder]:
    """The places that may be the replica: not those in older directories, nor those that never held a record."""
    lesser = [place for place in several if ages.is_older(place.directory) or ages.was_away(place.directory)]
    current = [place for place in several if place not in lesser]
    served = [place for place in current if not place.found.doubted and _has_held(disk, place)]
    if _is_a_move(several) and len({ages.is_older(place.directory) for place in several}) == 1:
        return list(several)
    if served:
        for place in lesser:
            why = f"its log directory is an older copy, or was away; the replica is {served[0].found.path}"
            twins.older[place.found.path] = why
        several = current
    if _is_a_move(several):
        return list(several)
    left = list(several)
    last_first = [*reversed(several)]
    last_first.sort(key=lambda place: (place not in lesser, place.directory.directory_id in known))
    for place in last_first:
        if len(left) > 1 and not _has_held(disk, place):
            twins.unmade.add(place.found.path)
            left.remove(place)
    return left


def _is_a_move(places: Sequence[ReplicaFolder]) -> bool:
    """True if these are the two halves of one move; storage/directory/moving.py decides between them."""
    if len(places) != 2:
        return False
    (one, here), (other, there) = places
    return one.beside == there.directory_id or other.beside == here.directory_id


def _has_held(disk: Disk, place: ReplicaFolder) -> bool:
    """True if the folder has held a record, or cannot be read: then it may have held one."""
    found, directory = place
    name = TopicPartition(found.topic, found.partition)
    if any(offsets.get(name) for _, offsets in directory.offsets.by_name()):
        return True
    with suppress(OSError):
        return not recovery.never_held(disk, found.path)
    return True


def _doubt(disk: Disk, places: Sequence[ReplicaFolder], twins: Twins) -> None:
    """Mark each of these folders as possibly the replica, with a note in each."""
    name = TopicPartition(places[0].found.topic, places[0].found.partition)
    for place in places:
        others = [other for other in places if other is not place]
        paths = ", ".join(other.found.path for other in others)
        twins.undecided[place.found.path] = (
            f"{name} lies in another log directory too ({paths}), and only one can be the replica. If no other broker "
            "holds the partition, move the older one out of its directory (compare the newest files in both), and "
            "start again"
        )
        doubted = tuple(other.directory.directory_id for other in others)
        if place.found.doubted != doubted:
            try:
                write_doubt(disk, place.found.path, doubted)
            except OSError as error:
                log.warning("%s: its doubt could not be noted: %s", place.found.path, error)


def _settle(disk: Disk, found: FoundPartition) -> None:
    """Drop the note of doubt, as the other folders are gone. If that fails, the next start does it again."""
    with suppress(OSError):
        disk.remove(posixpath.join(found.path, MOVING))
        disk.sync_directory(found.path)
