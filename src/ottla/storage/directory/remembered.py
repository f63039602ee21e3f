"""Reads the offset checkpoints of a log directory at a start, and chooses between each file and its second copy.

A file whose checksum holds is believed. One without a checksum was written by Apache Kafka or by an older ottla: it is
believed as far as the logs confirm it (witnesses.py). For any other file the second copy is taken (rule H1).
"""

from __future__ import annotations

import errno
import logging
import posixpath
from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from ottla.kernel.ids import TopicId, TopicPartition
from ottla.kernel.seams import Disk
from ottla.storage.checkpoint import (
    CLEANER,
    COPY,
    LOG_START,
    RECOVERY_POINT,
    REPLICATION,
    BadCheckpoint,
    clear_the_way,
    parse_offsets,
    parse_partition_metadata,
    read_small,
    write_offsets,
)

log = logging.getLogger("ottla.storage")

_COPIED = (RECOVERY_POINT, LOG_START, REPLICATION, CLEANER)
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


class Trust(Enum):
    """The trust in the numbers of a checkpoint."""

    SEALED = "its checksum holds"
    UNSEALED = "it has no checksum"
    COPIED = "its second copy was taken"
    LOST = "it is damaged, and there is no second copy"
    ABSENT = "there is none"


class Remembered(NamedTuple):
    """The numbers of a checkpoint, and the reason if the file itself was not believed."""

    offsets: dict[TopicPartition, int]
    trust: Trust
    fault: str = ""


class Identity(NamedTuple):
    """The partition of a folder; `topic_id` is None where nothing that can be believed says so."""

    topic_id: TopicId | None
    trust: Trust
    fault: str = ""
    place: TopicPartition | None = None
    """The topic's name and the partition, where the file says so."""


def remembered_offsets(disk: Disk, path: str) -> Remembered:
    """An offset checkpoint, or its second copy where it is damaged or missing."""
    fault = f"{path} is missing"
    try:
        body = read_small(disk, path)
        if body is not None:
            offsets, is_sealed = parse_offsets(path, body)
            return Remembered(offsets, Trust.SEALED if is_sealed else Trust.UNSEALED)
    except BadCheckpoint as bad:
        fault, body = str(bad), b""
    try:
        copied = read_small(disk, path + COPY)
        if copied is not None:
            offsets, is_sealed = parse_offsets(path + COPY, copied)
            if is_sealed:
                return Remembered(offsets, Trust.COPIED, fault)
    except BadCheckpoint:
        copied = b""
    return Remembered({}, Trust.ABSENT if body is None and copied is None else Trust.LOST, fault)


def remembered_identity(disk: Disk, path: str) -> Identity:
    """`partition.metadata`, or its second copy where it is damaged or missing.

    If the file has no checksum and the copy's holds, the copy is believed where they differ.
    """
    found, other, fault = None, None, f"{path} is missing"
    try:
        body = read_small(disk, path)
        if body is not None:
            found = parse_partition_metadata(path, body)
            if found.is_sealed:
                return Identity(found.topic_id, Trust.SEALED, place=found.place)
    except BadCheckpoint as bad:
        fault, body = str(bad), b""
    try:
        copied = read_small(disk, path + COPY)
        if copied is not None:
            other = parse_partition_metadata(path + COPY, copied)
    except BadCheckpoint:
        copied = b""
    if other is not None and other.is_sealed and (found is None or other.topic_id != found.topic_id):
        fault = fault if found is None else f"{path} has no checksum, and its second copy says another topic id"
        return Identity(other.topic_id, Trust.COPIED, fault, other.place)
    if found is not None:
        return Identity(found.topic_id, Trust.UNSEALED, place=None if other is None else other.place)
    return Identity(None, Trust.ABSENT if body is None and copied is None else Trust.LOST, fault)


class CheckpointFiles:
    """The offset checkpoints of one log directory, as files."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root
        self.trust: dict[str, Trust] = {}
        """The trust that each file deserved when it was read."""
        self.stale: set[str] = set()
        """The checkpoints to write even without a change: they have no checksum, or the disk was full."""

    def vouched_for(self, name: str) -> bool:
        """True if a checksum proves that the numbers read are those that were written."""
        return self.trust.get(name) in (Trust.SEALED, Trust.COPIED)

    def load(self, name: str, here: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Read a checkpoint; `here` leaves out partitions that are gone, since a new topic may have an old one's name.

        A damaged file is written anew from its second copy; if the disk is full, the next writing does it.
        """
        path = posixpath.join(self._root, name)
        read = remembered_offsets(self._disk, path)
        self.trust[name] = read.trust
        if read.trust is Trust.UNSEALED:
            self.stale.add(name)  # the next round writes it with a checksum
        kept = {place: offset for place, offset in read.offsets.items() if here is None or place in here}
        damaged = read.trust in (Trust.COPIED, Trust.LOST)
        if damaged:
            log.warning("%s: %s (%d partitions)", read.fault, read.trust.value, len(kept))
            clear_the_way(self._disk, path)
            clear_the_way(self._disk, path + COPY)
        if damaged or len(kept) != len(read.offsets):
            try:
                self.write(name, kept)
            except OSError as error:
                if error.errno not in _FULL_DISK:
                    raise
        return kept

    def ahead_in_copy(self, name: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Numbers of the second copy that are larger than those of the file, where both checksums hold.

        The copy is written last: a file with smaller numbers may be an older text that has come back. An older copy
        never has a larger number, as `write` removes it first where one falls or goes.
        """
        path = posixpath.join(self._root, name + COPY)
        try:
            body = read_small(self._disk, path) if self.trust[name] is Trust.SEALED else None
            copied, is_sealed = ({}, False) if body is None else parse_offsets(path, body)
        except BadCheckpoint:
            return {}
        return {place: at for place, at in copied.items() if is_sealed and at > offsets.get(place, 0)}

    def write(self, name: str, offsets: Mapping[TopicPartition, int], *, falling: bool = False) -> None:
        """Put it on disk, with its second copy. `falling`: a number falls or goes.

        The copy is not synced: after a loss of power an older one may be back, and a larger number in it would be taken
        for a newer one. A log start of a deleted topic would then delete records of a new topic of that name. So a copy
        with such a number is removed first; the file's own sync of the directory makes that last.
        """
        self.stale.add(name)
        path = posixpath.join(self._root, name)
        if name in _COPIED:
            clear_the_way(self._disk, path + COPY)
            if falling:
                self._disk.remove(path + COPY)
        write_offsets(self._disk, path, offsets, copied=name in _COPIED)
        self.stale.discard(name)
