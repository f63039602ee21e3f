"""One partition as the state has it, made from an entry and back; the last epoch that was led uncleanly."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from ottla.kernel.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from ottla.metadata import entries as log

NEVER_UNCLEAN = LeaderEpoch(-1)


class PartitionState(NamedTuple):
    """The agreed state of one partition."""

    topic_id: TopicId
    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    in_sync: tuple[BrokerId, ...]
    eligible: tuple[BrokerId, ...] = ()
    last_known: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    offline: tuple[BrokerId, ...] = ()
    """Live brokers that cannot use this replica, as its log directory has failed there: none of them may lead."""
    unclean_epoch: LeaderEpoch = NEVER_UNCLEAN
    """The last leader epoch whose leader may lack committed records; no entry says so, `apply` finds it."""
    awaited: str = ""
    """The incarnation of the log directory in which the last replica has to come back; "" if none is missing."""

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def arriving(self) -> int:
        """The added replicas that a leader leaves out when it counts how many have to be in sync (rule A3).

        While a replica is eligible none is: it left by the count of all replicas, and must hold what is committed.
        """
        return 0 if self.eligible else len(self.adding)


def unclean_epoch(before: PartitionState, after: PartitionState) -> LeaderEpoch:
    """The epoch of the last unclean leader: one begins if the new leader was neither in sync nor eligible.

    Except when the same entry changes the replicas: then a reassignment is done, and the leader has just joined the
    in-sync set.
    """
    begins = after.has_leader and after.leader_epoch > before.leader_epoch
    lacks = after.leader not in (*before.in_sync, *before.eligible)
    unclean = begins and lacks and set(after.replicas) == set(before.replicas)
    return after.leader_epoch if unclean else before.unclean_epoch


def partition_of(entry: log.PartitionEntry) -> PartitionState:
    """The state an entry gives a partition."""
    return PartitionState(
        TopicId(bytes(entry.topic_id)),
        entry.partition,
        BrokerId(entry.leader),
        LeaderEpoch(entry.leader_epoch),
        PartitionEpoch(entry.partition_epoch),
        _ids(entry.replicas),
        _ids(entry.in_sync),
        _ids(entry.eligible),
        _ids(entry.last_known),
        _ids(entry.adding),
        _ids(entry.removing),
        _ids(entry.offline),
        awaited=entry.awaited,
    )


def entry_of(partition: PartitionState) -> log.PartitionEntry:
    """The entry that gives a partition this state."""
    return log.PartitionEntry(
        topic_id=partition.topic_id,
        partition=partition.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        replicas=list(partition.replicas),
        in_sync=list(partition.in_sync),
        eligible=list(partition.eligible),
        last_known=list(partition.last_known),
        adding=list(partition.adding),
        removing=list(partition.removing),
        offline=list(partition.offline),
        awaited=partition.awaited,
    )


_ids = cast("Callable[[list[int]], tuple[BrokerId, ...]]", tuple)
"""Faster than a call for each: most are empty, and a start reads those of thousands of partitions (bench/starts.py)."""
