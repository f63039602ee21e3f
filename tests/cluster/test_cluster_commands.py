"""Commands carry the intent and the epochs it was based on; they are decided on the present state (rule C3)."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
from clusters import a_cluster, create, register, topic_id

from ottla.cluster.broker_commands import FenceBroker
from ottla.cluster.commands import (
    BalancedPartition,
    BalanceLeaders,
    ChangeInSync,
    Command,
    ElectLeader,
    ReplicaEpoch,
    ResignLeadership,
)
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import LeaderEpoch, PartitionEpoch
from ottla.metadata import entries, state
from ottla.metadata.entries import ENTRY_TYPES, PartitionsCreated


def parts(hint: object) -> set[object]:
    """A type and all types that it contains."""
    inside = [*get_args(hint), *(get_type_hints(hint).values() if isinstance(hint, type) else ())]
    return {hint}.union(*map(parts, inside))


@pytest.mark.parametrize("command", get_args(Command))
def test_no_command_holds_an_entry_or_a_partition_as_it_shall_be(command):
    """Rule C3."""
    hints = parts(command)
    results = {*ENTRY_TYPES.values(), entries.PartitionEntry, state.PartitionState, state.Topic, state.Metadata}
    assert not hints & results


@pytest.mark.parametrize("command", [ChangeInSync, BalancedPartition])
def test_what_changes_a_partition_as_it_was_seen_says_in_which_epoch_that_was(command):
    """Rule C3."""
    assert PartitionEpoch in get_type_hints(command).values()
    if command is ChangeInSync:
        assert LeaderEpoch in get_type_hints(command).values()


def test_one_command_is_decided_anew_on_what_others_wrote_meanwhile():
    """Rule C3: after a conflict the same command has another result, which fits the brokers of that moment."""
    cluster, command = a_cluster(1, 2), create("orders", 1, 2)
    first = cluster.ask(command, by=1)
    cluster.do(register(3))
    cluster.do(FenceBroker(2, cluster.epoch(2)), by=1)
    again = cluster.do(command, by=1)
    placed = [set(body.partitions[0].replicas) for body in (*first, *again) if isinstance(body, PartitionsCreated)]
    assert placed == [{1, 2}, {1, 3}]


def test_a_wish_that_came_true_meanwhile_needs_no_entry_or_is_refused_but_never_done_twice():
    """Rule C3: a command with a computed result would overwrite later changes."""
    cluster = a_cluster(1, 2, 3)
    cluster.do(create("orders", 1, 3)._replace(assignment=((1, 2, 3),), partitions=-1, replication_factor=-1))
    cluster.do(ResignLeadership(topic_id("orders"), 0, cluster.partition("orders").leader_epoch), by=1)
    seen = cluster.partition("orders")
    balance = BalanceLeaders((BalancedPartition(topic_id("orders"), 0, seen.partition_epoch),))
    shrink = ChangeInSync(
        topic_id("orders"), 0, seen.leader_epoch, seen.partition_epoch, (ReplicaEpoch(2, cluster.epoch(2)),)
    )
    assert cluster.do(shrink, by=2)
    after = cluster.partition("orders")
    assert (after.leader, after.in_sync) == (2, (2,))

    assert cluster.ask(balance, by=1) == []
    assert cluster.refused(shrink, by=2).code == ErrorCode.INVALID_UPDATE_VERSION
    old_leader = shrink._replace(leader_epoch=LeaderEpoch(seen.leader_epoch - 1), partition_epoch=after.partition_epoch)
    assert cluster.refused(old_leader, by=2).code == ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.refused(shrink._replace(partition_epoch=after.partition_epoch), by=1).code == (
        ErrorCode.FENCED_LEADER_EPOCH
    )
    elect = ElectLeader("orders", 0, unclean=False)
    assert cluster.refused(elect).code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert cluster.partition("orders") == after
