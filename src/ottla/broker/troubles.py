"""Faults of this broker's replicas and log directories as text: for metrics, and for `ottla doctor` by DescribeConfigs.

Apache Kafka's own answers have no field for a reason: DescribeLogDirs leaves out a replica that cannot be opened.
"""

from __future__ import annotations

import errno
import json
import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.storage.checkpoint import TEMPORARY
from ottla.storage.directory.strays import folder_in_words, stray_folders

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.reconcile import Replicas
    from ottla.kernel.seams import Disk
    from ottla.metadata.state import Metadata
    from ottla.storage.log import Log

_MOST = 100
_PROBE = "doctor" + TEMPORARY


class Trouble(NamedTuple):
    """A replica that is not fully served, a folder that was set aside, or a log directory (without a topic)."""

    topic: str
    partition: int
    path: str
    reason: str
    set_aside: bool = False
    advice: str = ""
    """The remedy, unless it is the one for damage."""


def as_json(replicas: Replicas, metadata: Metadata) -> str:
    """Log directories and replicas first, then folders that were set aside, as many as fit into an answer."""
    directories = _directories_in_trouble(replicas)
    found = [*directories, *replicas_in_trouble(replicas, metadata), *_refusals(replicas), *_set_aside(replicas)]
    return json.dumps([one._asdict() for one in found[:_MOST]], separators=(",", ":"))


def _directories_in_trouble(replicas: Replicas) -> Iterator[Trouble]:
    """Online log directories in which no file can be made: a write there will be refused, or fail the directory."""
    for directory in replicas.directories.online:
        if told := refusal(directory.disk, directory.path):
            yield Trouble("", -1, directory.path, told.reason, advice=told.advice)


class Refusal(NamedTuple):
    """A refusal of writes, with its remedy."""

    reason: str
    advice: str


def refusal(disk: Disk, path: str) -> Refusal | None:
    """Try to make a file in a log directory, and say what refuses it."""
    probe = posixpath.join(path, _PROBE)
    try:
        disk.refuse_unwritable(path)
        try:
            file = disk.open(probe, create=True)
            try:
                file.write_at(0, [b"1"])
            finally:
                file.release()
        finally:
            disk.remove(probe)
    except OSError as fault:
        if fault.errno == errno.ENOSPC and disk.free_bytes(path) > 0:
            return Refusal("there is room for bytes, and not for another file",
                           "its inodes are used up (df -i): delete files on that disk")  # fmt: skip
        return Refusal(f"no file can be made in it ({fault.strerror})",
                       "give the user of the broker the right to write there, or make room")  # fmt: skip
    return None


def _refusals(replicas: Replicas) -> Iterator[Trouble]:
    """Replicas that are sound and refuse writes."""
    for partition in replicas.all():
        if told := _refusal_in_words(partition):
            yield Trouble(partition.topic, partition.index, partition.log.directory, told.reason, advice=told.advice)


def _refusal_in_words(partition: Partition) -> Refusal | None:
    held, leader = partition.log, partition.leader
    if held.refusing and held.damaged_at is None:
        return Refusal("takes no writes since one failed", "the WARNINGs of the broker say why; restart it")
    try:
        held.disk.refuse_unwritable(held.directory)
    except OSError as fault:
        return Refusal(f"no file can be made in its folder ({fault.strerror})",
                       "give the user of the broker the right to write there: at its next segment the log "
                       "directory fails")  # fmt: skip
    if leader is not None and not leader.enough_in_sync:
        in_sync, wanted = len(leader.committed_in_sync), leader.required_in_sync
        return Refusal(f"refuses acks=all: {in_sync} of {wanted} replicas are in sync (min.insync.replicas)",
                       "start the brokers of the other replicas")  # fmt: skip
    return None


def _set_aside(replicas: Replicas) -> Iterator[Trouble]:
    for directory in replicas.directories.online:
        for folder in stray_folders(directory.disk, directory.path):
            place, reason = folder_in_words(directory.disk, folder)
            yield Trouble(place.topic, place.partition, folder, reason, set_aside=True)


def replicas_in_trouble(replicas: Replicas, metadata: Metadata) -> Iterator[Trouble]:
    """Replicas that cannot be opened, and those that are served except for damaged parts."""
    for key, found in sorted(replicas.directories.unreadable.by_key.items()):
        if metadata.partition(*key) is not None:
            for one in found:
                yield Trouble(one.topic, one.found.partition, one.found.path, one.reason)
    for partition in replicas.all():
        if reason := _damage_in_words(partition.log):
            yield Trouble(partition.topic, partition.index, partition.log.directory, reason)


def _damage_in_words(held: Log) -> str:
    if held.damaged_at is not None:
        return f"damaged from offset {held.damaged_at} on: nothing behind it is served"
    extents = [extent for base in held.damage.bases for extent in held.damage.of(base)]
    parts = [f"{one.first_offset} to {one.next_offset - 1}" for one in extents[:3]]
    more = f" and {len(extents) - 3} more places" if len(extents) > 3 else ""
    return f"damaged: offsets {', '.join(parts)}{more} are refused" if parts else ""
