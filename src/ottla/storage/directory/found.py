"""The partitions in a log directory, as a start finds them: by the names of folders and their `partition.metadata`."""

from __future__ import annotations

import logging
import posixpath
from typing import NamedTuple

from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk
from ottla.storage import checkpoint
from ottla.storage.checkpoint import ASIDE, clear_the_way
from ottla.storage.directory.move_notes import read_move
from ottla.storage.directory.remembered import Trust, remembered_identity
from ottla.storage.values import FULL_DISK, NO_RIGHTS, parse_directory_name

log = logging.getLogger("ottla.storage")
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
_NAME_MAX = 255
FUTURE_SUFFIX = "-future"


class FoundPartition(NamedTuple):
    """A partition's directory, as found at the opening."""

    topic: str
    partition: int
    topic_id: bytes | None
    """None if nothing that can be believed names it."""
    path: str
    beside: str | None = None
    """The id of the log directory that the replica was being moved from or to; it may be there too (moving.py)."""
    came: bool = False
    """True if the replica was being moved from `beside` to here."""
    fault: str = ""
    """The reason why the partition cannot be opened: an unknown topic id, or unreadable notes of its move."""
    doubted: tuple[str, ...] = ()
    """The ids of log directories whose folder may as well be the replica."""
    recorded: TopicPartition | None = None
    """The partition that its `partition.metadata` names; None for files of Apache Kafka and of older releases."""


class FoundFolders(NamedTuple):
    partitions: list[FoundPartition]
    futures: list[FoundPartition]
    doomed: list[str]
    """Folders that are to be deleted."""


def find_partitions(disk: Disk, root: str) -> FoundFolders:
    """Find the partitions of a log directory; strays are left as they are (strays.py)."""
    found = FoundFolders([], [], [])
    for name in disk.list(root):
        inside = posixpath.join(root, name)
        if not disk.is_directory(inside):
            if parse_directory_name(name) is not None:
                log.warning("%s is not a directory: it is renamed to %s", inside, name + ASIDE)
                disk.rename(inside, inside + ASIDE)
            continue
        future = name.endswith(FUTURE_SUFFIX)
        if future or name.endswith(DELETE_SUFFIX):
            found.doomed.append(inside)
        place = parse_directory_name(name.rpartition(".")[0] if future else name)
        if place is not None and not name.endswith((DELETE_SUFFIX, STRAY_SUFFIX)):
            (found.futures if future else found.partitions).append(found_at(disk, inside, place))
    return found


def left_of(disk: Disk, root: str, place: TopicPartition) -> list[str]:
    """Folders that were renamed to be deleted, or set aside: they tell where a partition of that name has gone."""
    found = [name for name in disk.list(root) if name.endswith((DELETE_SUFFIX, STRAY_SUFFIX))]
    starts = [(name, name.rpartition(".")[0]) for name in found]
    return [
        name
        for name, start in starts
        if start == str(place) or (len(name) == _NAME_MAX and start and str(place).startswith(start))
    ]


def found_at(disk: Disk, path: str, place: TopicPartition) -> FoundPartition:
    """The folder at `path`, whose name says that it is of `place`."""
    known = remembered_identity(disk, posixpath.join(path, checkpoint.PARTITION_METADATA))
    if known.trust is Trust.COPIED:
        log.warning("%s: the topic id of %s is taken from the second copy", known.fault, place)
        _mend(disk, path, known.topic_id or b"", known.place)
    try:
        move = read_move(disk, path)
    except OSError as error:
        return FoundPartition(*place, known.topic_id, path, fault=str(error), recorded=known.place)
    beside, came = move.source or move.target, move.source is not None
    fault = known.fault if known.topic_id is None else ""
    return FoundPartition(*place, known.topic_id, path, beside, came, fault, move.doubted, known.place)


def _mend(disk: Disk, path: str, topic_id: bytes, place: TopicPartition | None) -> None:
    """Write it anew; without room or rights the next start tries again."""
    try:
        clear_the_way(disk, posixpath.join(path, checkpoint.PARTITION_METADATA))
        checkpoint.write_partition_metadata(disk, path, topic_id, place)
    except OSError as error:
        if error.errno not in (*FULL_DISK, *NO_RIGHTS):
            raise


def give_second_copy(disk: Disk, found: FoundPartition) -> None:
    """A partition that an older release has made, or Apache Kafka, gets checksums and a second copy."""
    path = posixpath.join(found.path, checkpoint.PARTITION_METADATA)
    if found.topic_id is None or disk.exists(path + checkpoint.COPY):
        return
    _mend(disk, found.path, found.topic_id, TopicPartition(found.topic, found.partition))
