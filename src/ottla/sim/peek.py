"""Reads files of a simulated disk, and a leader's proposals, without an operation of the disk.

For judges, and for faults that wait for a certain state. With `durable` it reads what a power cut at this moment is
sure to leave; else what processes see.
"""

from __future__ import annotations

import posixpath
import struct
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.kernel.ids import BrokerId
from ottla.records.header import HEADER_SIZE, LAST_DELTA_AT, SIZE_OVERHEAD
from ottla.sim.disk import SimDisk
from ottla.sim.disk_nodes import DirectoryNode, FileNode
from ottla.storage.checkpoint import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    BadCheckpoint,
    parse_partition_metadata,
)

if TYPE_CHECKING:
    from ottla.sim.machine import Machine

_SUFFIX = ".log"
_BOUNDS = struct.Struct(f">qi{LAST_DELTA_AT - SIZE_OVERHEAD}xi")
"""Base offset, length and last offset delta at once: judges read the headers of a segment again and again."""


def batches(disk: SimDisk, directory: str, from_offset: int, *, durable: bool) -> Iterator[tuple[int, int, bytes]]:
    """(base offset, next offset, bytes) of each whole batch that ends above `from_offset`, in order of the files."""
    node = _find(disk, directory, durable=durable)
    found = _names(node, durable=durable) if isinstance(node, DirectoryNode) else {}
    names = sorted([name for name in found if name.endswith(_SUFFIX)])
    first = max(bisect_right(names, f"{from_offset:020d}{_SUFFIX}") - 1, 0)  # names sort as their offsets do
    for name in names[first:]:
        file = found[name]
        if isinstance(file, FileNode):
            yield from _batches_in(file.disk_body if durable else file.body, from_offset)


def homes(disk: SimDisk, roots: Sequence[str], name: str) -> list[str]:
    """The log directories in which this folder is durable: two during a move."""
    return [root for root in roots if isinstance(_find(disk, f"{root}/{name}", durable=True), DirectoryNode)]


def holds_segment(disk: SimDisk, directory: str, base_offset: int) -> bool:
    return base_offset in _segments(disk, directory, durable=True)


def holds_topic(disk: SimDisk, directory: str, topic_id: bytes) -> bool:
    """True if the folder says that it is a partition of this topic; as a power cut is sure to leave it."""
    path = f"{directory}/{PARTITION_METADATA}"
    node = _find(disk, path, durable=True)
    try:
        return isinstance(node, FileNode) and parse_partition_metadata(path, bytes(node.disk_body)).topic_id == topic_id
    except BadCheckpoint:
        return False


def reach(disk: SimDisk, directory: str, base_offset: int) -> int | None:
    """The start of the next segment; None if this one is the last, which may still grow."""
    bases = {base for durable in (False, True) for base in _segments(disk, directory, durable=durable)}
    return min((base for base in bases if base > base_offset), default=None)


def first_offset(disk: SimDisk, directory: str) -> int:
    """The start of the first durable segment; 0 if there is none."""
    return min(_segments(disk, directory, durable=True), default=0)


def within(disk: SimDisk, directory: str, base_offset: int) -> Iterator[tuple[int, int, bytes]]:
    """The durable batches of one segment."""
    return _batches_in(_segments(disk, directory, durable=True)[base_offset], base_offset)


def checkpointed(disk: SimDisk, path: str) -> dict[tuple[str, int], int]:
    """The durable offsets of a checkpoint, by (topic, partition)."""
    node = _find(disk, path, durable=True)
    if not isinstance(node, FileNode):
        return {}
    words = [line.split() for line in node.disk_body.decode().splitlines()[2:]]
    return {(topic, int(index)): int(offset) for topic, index, offset in words}


def newest_epoch(disk: SimDisk, directory: str) -> int:
    """The newest epoch in a log's durable checkpoint of leader epochs; -1 if it has none."""
    node = _find(disk, f"{directory}/{LEADER_EPOCHS}", durable=True)
    lines = node.disk_body.decode().splitlines()[2:] if isinstance(node, FileNode) else []
    return int(lines[-1].split()[0]) if lines else -1


def joining_at(machine: Machine) -> BrokerId | None:
    """The first broker that a leader here has proposed as in sync and that is not in sync yet."""
    current = machine.serving
    leaders = [] if current is None else [each.leader for each in current.node.replicas.by_id.values()]
    joining = [one.proposed_in_sync - one.committed_in_sync for one in leaders if one is not None]
    return min(frozenset().union(*joining), default=None)


def has_gone_on(
    machine: Machine, places: Collection[tuple[str, int]], producer_id: int, coordinator_epoch: int
) -> bool:
    """True if one of these logs has a transaction of the producer open behind a marker of a later coordinator."""
    current = machine.serving
    replicas = [] if current is None else current.node.replicas.all()
    logs = [each.log for each in replicas if (each.topic, each.index) in places]
    known = [log.producers.get(producer_id) for log in logs]
    return any(
        state is not None and state.transaction_start >= 0 and state.coordinator_epoch > coordinator_epoch
        for state in known
    )


def is_synced(disk: SimDisk, path: str) -> bool:
    """True if no change of the file waits for a sync: neither bytes nor a cut."""
    node = _find(disk, path, durable=False)
    return not isinstance(node, FileNode) or not node.pending


def _batches_in(body: bytearray, from_offset: int) -> Iterator[tuple[int, int, bytes]]:
    at, size = 0, len(body)
    while at + HEADER_SIZE <= size:
        base, length, last_delta = _BOUNDS.unpack_from(body, at)
        if length < HEADER_SIZE - SIZE_OVERHEAD:
            return
        stop = at + SIZE_OVERHEAD + length
        if stop > size:
            return
        following = base + 1 + last_delta
        if following > from_offset:
            yield base, following, bytes(body[at:stop])
        at = stop


def _segments(disk: SimDisk, directory: str, *, durable: bool) -> dict[int, bytearray]:
    node = _find(disk, directory, durable=durable)
    if not isinstance(node, DirectoryNode):
        return {}
    return {
        int(name.removesuffix(_SUFFIX)): file.disk_body if durable else file.body
        for name, file in _names(node, durable=durable).items()
        if name.endswith(_SUFFIX) and isinstance(file, FileNode)
    }


def _find(disk: SimDisk, path: str, *, durable: bool) -> DirectoryNode | FileNode | None:
    node: DirectoryNode | FileNode | None = disk.root
    for name in [part for part in path.split(posixpath.sep) if part]:
        node = _names(node, durable=durable).get(name) if isinstance(node, DirectoryNode) else None
    return node


def _names(directory: DirectoryNode, *, durable: bool) -> dict[str, FileNode | DirectoryNode]:
    return directory.disk_names if durable else directory.names
