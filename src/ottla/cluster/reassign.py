"""Reassignment: a partition's replicas become others, step by step, and records are never held by fewer than before.

While it runs, the replicas are the wanted ones and those to be removed; it is completed in the very append in which the
wanted replicas are found in sync, so that nobody need ask for it. Only if that ends a leadership, the leader itself
does it, as it may have something to lay down first (`broker/replicas/in_sync_sets.py`). `decide.py` comes here with the
wishes of administrators, `partitions.py` does with each change of an in-sync set.
"""

from __future__ import annotations

from ottla.cluster.brokers import LEADERS_COMPLETE
from ottla.cluster.commands import AlterReassignment, RaiseReplication
from ottla.cluster.partitions import (
    changed_entries,
    later,
    min_in_sync,
    of_replicas,
    with_leader_elected,
    with_reassignment_completed,
)
from ottla.cluster.placement import place_more
from ottla.cluster.topics import replicas_problem
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_LEADER, BrokerId
from ottla.metadata.entries import Body
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.state import Metadata, Topic


def alter(command: AlterReassignment, state: Metadata) -> list[Body] | ApiError:
    """Begin a reassignment, redirect a running one, or, without replicas, cancel it."""
    topic = state.topic(command.topic)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {command.topic}.")
    before = state.partition(topic.topic_id, command.partition)
    if before is None:
        return ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {command.topic}:{command.partition}."
        )
    if command.replicas is None:
        return _cancel(before, state, topic)
    wrong = replicas_problem(command.replicas, state)
    if wrong is not None:
        return wrong
    original = original_replicas(before)
    if not command.may_change_factor and len(command.replicas) != len(original):
        return ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(original)} to {len(command.replicas)}",
        )
    removing = tuple(one for one in original if one not in command.replicas)
    adding = tuple(one for one in command.replicas if one not in original)
    after = _with_replicas(before, (*command.replicas, *removing), state, topic)
    if after is None:
        return _cannot("change", topic, before)
    after = after._replace(adding=adding, removing=removing)
    leader = state.brokers.get(before.leader)
    if before.leader not in removing or leader is None or leader.metadata_version < LEADERS_COMPLETE:
        after = with_reassignment_completed(after, state, topic)
    return [] if after == before else changed_entries([later(before, after)])


def raise_replication(command: RaiseReplication, state: Metadata) -> list[Body] | ApiError:
    """Give more replicas to partitions that are short of them, unless they are being reassigned."""
    topic = state.topic(command.topic)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {command.topic}.")
    short = [one for one in topic.partitions if len(one.replicas) < command.factor and not is_reassigning(one)]
    changed = []
    for before, added in zip(short, place_more(state, short, command.factor), strict=True):
        if added:
            changed.append(later(before, before._replace(replicas=(*before.replicas, *added), adding=added)))
    return changed_entries(changed)


def original_replicas(partition: PartitionState) -> tuple[BrokerId, ...]:
    """The replicas before the running reassignment, which come back if it is cancelled."""
    return tuple(one for one in partition.replicas if one not in partition.adding)


def is_reassigning(partition: PartitionState) -> bool:
    return bool(partition.adding or partition.removing)


def _cancel(before: PartitionState, state: Metadata, topic: Topic) -> list[Body] | ApiError:
    if not is_reassigning(before):
        return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    after = _with_replicas(before, original_replicas(before), state, topic)
    if after is None:
        return _cannot("revert", topic, before)
    return changed_entries([later(before, after._replace(adding=(), removing=()))])


def _with_replicas(
    before: PartitionState, replicas: tuple[BrokerId, ...], state: Metadata, topic: Topic
) -> PartitionState | None:
    """The partition with these replicas at once; None if only the removed ones hold all committed records."""
    after = of_replicas(before, replicas, min_in_sync(state, topic))
    if before.leader in replicas:
        return after
    after = with_leader_elected(after._replace(leader=NO_LEADER), state, topic)
    return after if after.in_sync else None


def _cannot(verb: str, topic: Topic, partition: PartitionState) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"Unable to {verb} partition assignment for {topic.name}:{partition.partition} because it would require an "
        "unclean leader election.",
    )
