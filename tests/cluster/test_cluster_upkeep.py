"""Upkeep: the caretaker restores preferred leaders from time to time, and internal topics grow with the cluster."""

from __future__ import annotations

from clusters import Decisions, a_cluster, register, topic_id

from ottla.cluster.broker_commands import FenceBroker
from ottla.cluster.commands import BalanceLeaders, ChangeInSync, CreateTopic, RaiseReplication, ReplicaEpoch
from ottla.cluster.upkeep import MOST_AT_ONCE, Upkeep, to_balance
from ottla.kernel.ids import BrokerId

OFFSETS = "__consumer_offsets"
COMPACT = (("cleanup.policy", "compact"),)


def upkeep(*, balances: bool = True) -> Upkeep:
    return Upkeep(balances=balances, interval_ms=300_000, factors={OFFSETS: 3})


def broker_1_leads_nothing_after_its_return(partitions: int) -> Decisions:
    cluster = a_cluster(1, 2)
    cluster.do(CreateTopic("t", topic_id("t"), partitions, 2))
    cluster.do(FenceBroker(BrokerId(1), cluster.epoch(1)), by=2)
    cluster.do(register(1))
    for index in range(partitions):
        now = cluster.partition("t", index)
        both = tuple(ReplicaEpoch(BrokerId(one), cluster.epoch(one)) for one in (1, 2))
        cluster.do(ChangeInSync(now.topic_id, index, now.leader_epoch, now.partition_epoch, both), by=now.leader)
    return cluster


def test_leaders_go_back_when_the_interval_is_over_and_not_before() -> None:
    cluster = broker_1_leads_nothing_after_its_return(4)
    care = upkeep()
    assert care.turn(cluster.state, first=True, now_ms=1000) == []
    assert care.turn(cluster.state, first=True, now_ms=300_999) == []
    (command,) = care.turn(cluster.state, first=True, now_ms=301_000)
    assert isinstance(command, BalanceLeaders)
    cluster.do(command)
    assert [cluster.partition("t", index).leader for index in range(4)].count(1) == 2
    assert to_balance(cluster.state) == []
    assert care.turn(cluster.state, first=True, now_ms=601_000) == []


def test_only_the_caretaker_acts_and_only_where_it_may() -> None:
    cluster = broker_1_leads_nothing_after_its_return(2)
    for care, first in ((upkeep(), False), (upkeep(balances=False), True)):
        assert care.turn(cluster.state, first=first, now_ms=0) == []
        assert care.turn(cluster.state, first=first, now_ms=900_000) == []


def test_many_leaders_go_back_in_commands_of_bounded_work() -> None:
    cluster = broker_1_leads_nothing_after_its_return(2400)
    commands = to_balance(cluster.state)
    sizes = [len(command.partitions) for command in commands if isinstance(command, BalanceLeaders)]
    assert sum(sizes) == MOST_AT_ONCE
    assert max(sizes) <= 100


def test_internal_topics_get_more_replicas_as_brokers_join() -> None:
    cluster = a_cluster(1)
    cluster.do(CreateTopic(OFFSETS, topic_id("offsets"), 6, 3, configs=COMPACT, as_far_as_possible=True))
    care = upkeep()
    assert care.turn(cluster.state, first=True, now_ms=0) == []
    cluster.do(register(2))
    assert care.turn(cluster.state, first=True, now_ms=1) == [RaiseReplication(OFFSETS, 3)]
    cluster.do(RaiseReplication(OFFSETS, 3))
    growing = cluster.partition(OFFSETS)
    assert (growing.replicas, growing.in_sync, growing.adding, growing.leader) == ((1, 2), (1,), (2,), 1)
    cluster.do(register(3))
    assert care.turn(cluster.state, first=True, now_ms=2) == [], "the first step is not done yet"
    for index in range(6):
        now = cluster.partition(OFFSETS, index)
        both = tuple(ReplicaEpoch(BrokerId(one), cluster.epoch(one)) for one in (1, 2))
        cluster.do(ChangeInSync(now.topic_id, index, now.leader_epoch, now.partition_epoch, both), by=1)
    cluster.do(RaiseReplication(OFFSETS, 3))
    assert all(cluster.partition(OFFSETS, index).replicas == (1, 2, 3) for index in range(6))
    assert care.turn(cluster.state, first=True, now_ms=3) == []


def test_added_replicas_avoid_machines_that_have_one() -> None:
    cluster = Decisions()
    for number, host in ((1, "a"), (2, "a"), (3, "b")):
        cluster.do(register(number, host=host))
    cluster.do(CreateTopic(OFFSETS, topic_id("offsets"), assignment=((BrokerId(1),),), configs=COMPACT))
    cluster.do(RaiseReplication(OFFSETS, 2))
    assert cluster.partition(OFFSETS).replicas == (1, 3)
