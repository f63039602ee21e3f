"""Damage in a coordinator's log: whether its records may be left out, and what is said of it.

Called by shard_runner.py while it loads. An only replica of `__consumer_offsets` is loaded without its damaged records:
their groups have older offsets or none, and all others go on. A transaction without its last state may be ended in
another way than its client was told, so `__transaction_state` waits until an administrator lets it be loaded so. Where
there are other replicas, one of them leads, or may come back, and damaged segments are fetched from it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Protocol

from ottla.broker.replicas.partition import Partition
from ottla.kernel.errors import ErrorCode
from ottla.records.batch import iterate_batches
from ottla.records.faults import CorruptRecords
from ottla.records.reader import read_records
from ottla.schema.codec import MalformedMessage
from ottla.storage.segment.walk import Extent

_RELEASED = "false"
_LOOK_BYTES = 1024 * 1024
_MOST_NAMES = 20

log = logging.getLogger("ottla.coordinators")


class DamagedShard(Protocol):
    """The part of a shard that knows whose records are damaged."""

    bears_damage: bool
    """True if a lost record costs nothing but what it said of its own group."""
    lost_with_a_record: str
    """A sentence for the log: the cost of a lost record."""

    def decode(self, key: bytes, value: bytes | None) -> Any | None: ...

    def owner(self, entry: Any) -> str:
        """The group or transactional id of an entry."""
        ...


def behind_damage(partition: Partition, shard: DamagedShard, offset: int) -> int | None:
    """The offset behind known damage at `offset`, if the records there may be left out; say what is lost."""
    held = partition.log
    found = held.damage.at(offset)
    if found is None or not _may_leave_out(partition, shard):
        return None
    base, extent = found
    names = sorted(set(_names(partition, shard, base, extent)))
    log.warning(
        "%s-%d, offsets %d to %d are damaged, and no other replica has them: it is loaded without them. %s. %s",
        partition.topic, partition.index, extent.first_offset, extent.next_offset - 1, shard.lost_with_a_record,
        f"Named in them: {', '.join(names[:_MOST_NAMES])}{' and others' if len(names) > _MOST_NAMES else ''}"
        if names else "Whose records they were cannot be read",
    )  # fmt: skip
    return max(extent.next_offset, offset + 1)


def say_unreadable(partition: Partition, offset: int, error: ErrorCode) -> None:
    """Say that the log cannot be loaded, and what an administrator can do."""
    log.error(
        "%s-%d cannot be loaded at offset %d, and its clients wait: error %d. If no other replica comes to lead, "
        "start the brokers of its other replicas, or restore this one from a backup. To go on without what is damaged: "
        "ottla topic alter %s --config deletion.protection=false, and take that back once it is loaded",
        partition.topic, partition.index, offset, error, partition.topic,
    )  # fmt: skip


def _may_leave_out(partition: Partition, shard: DamagedShard) -> bool:
    leader = partition.leader
    alone = leader is not None and len(leader.replicas) == 1
    return (alone and shard.bears_damage) or partition.config.deletion_protection == _RELEASED


def _names(partition: Partition, shard: DamagedShard, base: int, extent: Extent) -> Iterator[str]:
    """The groups or transactional ids in damaged batches, as far as their bytes can still be read."""
    segment = next((one for one in partition.log.segments if one.base_offset == base), None)
    if segment is None:
        return
    try:
        body = segment.file.read_at(extent.position, min(extent.end - extent.position, _LOOK_BYTES))
        for batch in iterate_batches(body):
            for record in [] if batch.is_control else read_records(batch):
                entry = shard.decode(record.key or b"", None)
                if entry is not None:
                    yield shard.owner(entry)
    except (OSError, CorruptRecords, MalformedMessage, UnicodeDecodeError):
        return
