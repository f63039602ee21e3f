"""Reassignment: added replicas catch up before others are removed, and no committed record is at risk."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from clusters import Decisions, a_cluster, register, topic_id

from ottla.cluster.broker_commands import DrainBroker, FenceBroker
from ottla.cluster.commands import (
    AlterReassignment,
    BalancedPartition,
    BalanceLeaders,
    ChangeInSync,
    CreatePartitions,
    CreateTopic,
    ReplicaEpoch,
)
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_LEADER, BrokerId
from ottla.metadata.entries import ENTRY_LIMIT, encode_entry


def a_topic(cluster: Decisions, *replicas: int, name: str = "t", required: int = 1) -> None:
    assignment = (tuple(BrokerId(one) for one in replicas),)
    configs = (("min.insync.replicas", str(required)),)
    cluster.do(CreateTopic(name, topic_id(name), assignment=assignment, configs=configs))


def reassign(cluster: Decisions, *replicas: int) -> None:
    cluster.do(AlterReassignment("t", 0, tuple(BrokerId(one) for one in replicas)))


def in_sync_becomes(cluster: Decisions, *brokers: int) -> None:
    now = cluster.partition("t")
    replicas = tuple(ReplicaEpoch(BrokerId(one), cluster.epoch(one)) for one in brokers)
    command = ChangeInSync(now.topic_id, 0, now.leader_epoch, now.partition_epoch, replicas)
    cluster.do(command, by=now.leader)


def replicas(cluster: Decisions) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int], int]:
    now = cluster.partition("t")
    return now.replicas, now.in_sync, now.adding, now.removing, now.leader


def test_a_moved_partition_keeps_its_old_replicas_until_all_new_ones_are_in_sync() -> None:
    cluster = a_cluster(1, 2, 3, 4)
    a_topic(cluster, 1, 2)
    reassign(cluster, 3, 4)
    assert replicas(cluster) == ((3, 4, 1, 2), (1, 2), (3, 4), (1, 2), 1)
    in_sync_becomes(cluster, 1, 2, 3)
    assert replicas(cluster) == ((3, 4, 1, 2), (3, 1, 2), (3, 4), (1, 2), 1)
    in_sync_becomes(cluster, 1, 2, 3, 4)
    assert replicas(cluster) == ((3, 4), (3, 4), (), (), 3)
    assert cluster.partition("t").leader_epoch == 1


def test_a_leader_that_stays_goes_on_leading_and_begins_another_epoch_when_a_replica_goes() -> None:
    """A fetch that the replica sent before it was removed is no receipt once it has come back empty."""
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1, 2)
    reassign(cluster, 3, 1)
    in_sync_becomes(cluster, 1, 2, 3)
    assert replicas(cluster) == ((3, 1), (3, 1), (), (), 1)
    assert cluster.partition("t").leader_epoch == 1
    reassign(cluster, 1, 3)
    assert cluster.partition("t").leader_epoch == 1


def test_more_replicas_are_replicas_at_once_and_added_until_they_are_in_sync() -> None:
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1)
    reassign(cluster, 1, 2, 3)
    assert replicas(cluster) == ((1, 2, 3), (1,), (2, 3), (), 1)
    in_sync_becomes(cluster, 1, 2, 3)
    assert replicas(cluster) == ((1, 2, 3), (1, 2, 3), (), (), 1)


def test_fewer_replicas_and_another_order_are_done_in_one_step() -> None:
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1, 2, 3)
    reassign(cluster, 3, 1)
    assert replicas(cluster) == ((3, 1), (3, 1), (), (), 1)
    reassign(cluster, 1, 3)
    assert replicas(cluster) == ((1, 3), (1, 3), (), (), 1)
    assert cluster.do(AlterReassignment("t", 0, (BrokerId(1), BrokerId(3)))) == []


def test_a_leader_that_is_to_go_completes_the_reassignment_itself() -> None:
    """The leader may have to hand over its work first, and only it knows when that is done."""
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1, 2, 3)
    reassign(cluster, 3, 2)
    assert replicas(cluster) == ((3, 2, 1), (3, 2, 1), (), (1,), 1)
    in_sync_becomes(cluster, 3, 2, 1)
    assert replicas(cluster) == ((3, 2), (3, 2), (), (), 3)


def test_for_a_leader_of_an_older_release_it_is_completed_at_once() -> None:
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1, 2, 3)
    older = cluster.state.brokers[BrokerId(1)]._replace(metadata_version=1)
    cluster.state.brokers[BrokerId(1)] = older
    reassign(cluster, 3, 2)
    assert replicas(cluster) == ((3, 2), (3, 2), (), (), 3)


def test_a_reassignment_that_is_complete_once_a_broker_has_died_is_completed_by_who_leads_then() -> None:
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1, 2, 3)
    reassign(cluster, 3, 2)
    cluster.do(FenceBroker(BrokerId(1), cluster.epoch(1)), by=2)
    assert replicas(cluster) == ((3, 2, 1), (3, 2), (), (1,), 3)
    in_sync_becomes(cluster, 3, 2)
    assert replicas(cluster) == ((3, 2), (3, 2), (), (), 3)


def test_replicas_are_removed_only_while_enough_that_stay_are_in_sync() -> None:
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1, 2, 3, required=2)
    in_sync_becomes(cluster, 1, 2)
    reassign(cluster, 2, 3)
    assert replicas(cluster) == ((2, 3, 1), (2, 1), (), (1,), 1)
    in_sync_becomes(cluster, 1, 2, 3)
    assert replicas(cluster) == ((2, 3), (2, 3), (), (), 2)


def test_a_reassignment_is_taken_back() -> None:
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1, 2)
    reassign(cluster, 3, 2)
    cluster.do(AlterReassignment("t", 0, None))
    now = cluster.partition("t")
    assert set(now.replicas) == {1, 2}
    assert (now.adding, now.removing, now.leader) == ((), (), 1)


def test_partitions_that_are_added_meanwhile_get_no_more_replicas_than_the_others_will_have() -> None:
    cluster = a_cluster(1, 2, 3, 4)
    a_topic(cluster, 1, 2)
    reassign(cluster, 3, 4)
    cluster.do(CreatePartitions("t", 2))
    assert len(cluster.partition("t", 1).replicas) == 2
    cluster.do(CreatePartitions("t", 3, ((BrokerId(1), BrokerId(3)),)))
    assert cluster.partition("t", 2).replicas == (1, 3)


def test_it_is_not_taken_back_where_only_the_added_replica_holds_the_records() -> None:
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1)
    reassign(cluster, 3, 2)
    in_sync_becomes(cluster, 1, 3)
    cluster.do(FenceBroker(BrokerId(1), cluster.epoch(1)), by=2)
    assert replicas(cluster) == ((3, 2, 1), (3,), (3, 2), (1,), 3)
    fault = cluster.refused(AlterReassignment("t", 0, None))
    assert fault.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "unclean leader election" in fault.message


def test_another_aim_replaces_the_first_and_forgets_what_it_added() -> None:
    cluster = a_cluster(1, 2, 3, 4)
    a_topic(cluster, 1, 2)
    reassign(cluster, 3, 2)
    reassign(cluster, 4, 2)
    assert replicas(cluster) == ((4, 2, 1), (2, 1), (4,), (1,), 1)


def test_the_removed_replica_dies_and_the_rest_goes_on() -> None:
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1, 2)
    reassign(cluster, 2, 3)
    cluster.do(FenceBroker(BrokerId(1), cluster.epoch(1)), by=2)
    assert replicas(cluster) == ((2, 3, 1), (2,), (3,), (1,), 2)
    in_sync_becomes(cluster, 2, 3)
    assert replicas(cluster) == ((2, 3), (2, 3), (), (), 2)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (
            AlterReassignment("nope", 0, (BrokerId(1),)),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "Unable to find a topic named nope.",
        ),
        (
            AlterReassignment("t", 7, None),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "Unable to find partition t:7.",
        ),
        (
            AlterReassignment("t", 0, None),
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            "No partition reassignment is in progress.",
        ),
        (
            AlterReassignment("t", 0, ()),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            AlterReassignment("t", 0, (BrokerId(9),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            AlterReassignment("t", 0, (BrokerId(1), BrokerId(1))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            AlterReassignment("t", 0, (BrokerId(1),), may_change_factor=False),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "The replication factor is changed from 2 to 1",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_kafkas_words(command: AlterReassignment, code: ErrorCode, message: str) -> None:
    cluster = a_cluster(1, 2)
    a_topic(cluster, 1, 2)
    fault = cluster.refused(command)
    assert (fault.code, fault.message) == (code, message)


def seen(cluster: Decisions) -> BalanceLeaders:
    now = cluster.partition("t")
    return BalanceLeaders((BalancedPartition(now.topic_id, 0, now.partition_epoch),))


def test_balance_gives_leaders_back_and_does_nothing_to_what_has_changed() -> None:
    cluster = a_cluster(1, 2)
    a_topic(cluster, 1, 2)
    cluster.do(FenceBroker(BrokerId(1), cluster.epoch(1)), by=2)
    old = seen(cluster)
    cluster.do(register(1))
    assert cluster.partition("t").leader == 2
    assert cluster.do(old) == [], "broker 1 is not in sync yet"
    in_sync_becomes(cluster, 2, 1)
    assert cluster.do(old) == [], "seen before the last change"
    cluster.do(seen(cluster))
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (1, 2)


def test_a_broker_that_drains_joins_no_in_sync_set() -> None:
    cluster = a_cluster(1, 2)
    a_topic(cluster, 1, 2)
    in_sync_becomes(cluster, 1)
    cluster.do(DrainBroker(BrokerId(2), cluster.epoch(2)), by=2)
    now = cluster.partition("t")
    both = tuple(ReplicaEpoch(BrokerId(one), cluster.epoch(one)) for one in (1, 2))
    fault = cluster.refused(ChangeInSync(now.topic_id, 0, now.leader_epoch, now.partition_epoch, both), by=1)
    assert fault.code is ErrorCode.INELIGIBLE_REPLICA


def test_the_death_of_all_but_one_leaves_the_last_in_sync_set_to_lead_again() -> None:
    cluster = a_cluster(1, 2, 3)
    a_topic(cluster, 1, 2)
    for broker in (1, 2):
        cluster.do(FenceBroker(BrokerId(broker), cluster.epoch(broker)), by=3)
    now = cluster.partition("t")
    assert (now.leader, now.in_sync) == (NO_LEADER, (2,))
    cluster.do(register(1))
    assert cluster.partition("t").leader == NO_LEADER, "it may lack what broker 2 committed alone"
    cluster.do(register(2))
    assert cluster.partition("t").leader == 2


def test_two_thousand_partitions_of_a_dead_broker_are_decided_in_entries_of_bounded_size() -> None:
    cluster = a_cluster(1, 2, 3)
    cluster.do(CreateTopic("t", topic_id("t"), 2000, 3))
    entries = cluster.do(FenceBroker(BrokerId(1), cluster.epoch(1)), by=2)
    assert all(len(encode_entry(body, broker_epoch=1, sequence=1)) <= ENTRY_LIMIT for body in entries)
    partitions = [cluster.partition("t", index) for index in range(2000)]
    assert all(one.leader in (2, 3) and 1 not in one.in_sync for one in partitions)
    led = [sum(one.leader == broker for one in partitions) for broker in (2, 3)]
    assert min(led) > 600, "the dead broker's leaderships are shared"
