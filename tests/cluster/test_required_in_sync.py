"""After `min.insync.replicas` falls, a leader commits without eligible leavers, so they may not lead (rule A6)."""

from __future__ import annotations

import pytest
from clusters import Decisions, a_cluster, create, register

from ottla.cluster.broker_commands import FenceBroker
from ottla.cluster.command_order import may_share_append
from ottla.cluster.commands import MIN_IN_SYNC, ChangeInSync, ConfigEdit, ConfigOperation, EditConfigs
from ottla.kernel.ids import NO_LEADER
from ottla.metadata.entries import ConfigsSet, PartitionsChanged
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE, TOPIC_RESOURCE

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE


def required(count: int | None, of: str = "orders") -> EditConfigs:
    kind = BROKER_RESOURCE if of == ALL_BROKERS else TOPIC_RESOURCE
    return EditConfigs(kind, of, (ConfigEdit(MIN_IN_SYNC, DELETE if count is None else SET, str(count or "")),))


def one_of_two_left(**configs: str) -> Decisions:
    """Broker 1 leads alone with two required in sync; nothing was committed since, so broker 2 is eligible."""
    decisions = a_cluster(1, 2)
    if not configs:
        decisions.do(required(2, ALL_BROKERS))
    decisions.do(create("orders", replicas=2, **configs))
    decisions.do(FenceBroker(2, decisions.epoch(2)))
    assert decisions.partition("orders").in_sync == (1,)
    assert decisions.partition("orders").eligible == (2,)
    return decisions


def assert_only_the_leader_is_left(decisions: Decisions) -> None:
    assert decisions.partition("orders").eligible == ()
    decisions.do(register(2))
    decisions.do(FenceBroker(1, decisions.epoch(1)), by=2)
    assert decisions.partition("orders").leader == NO_LEADER
    assert decisions.partition("orders").in_sync == (1,)


def with_nobody_left() -> Decisions:
    """Broker 1, the last one in sync, has died too; then a third broker lowers the minimum."""
    decisions = a_cluster(1, 2, 3)
    decisions.do(create("orders", -1, -1, min_insync_replicas="2")._replace(assignment=((1, 2),)))
    for number in (2, 1):
        decisions.do(FenceBroker(number, decisions.epoch(number)), by=3)
    decisions.do(required(1), by=3)
    partition = decisions.partition("orders")
    assert (partition.leader, partition.in_sync, partition.eligible) == (NO_LEADER, (1,), (2,))
    return decisions


def test_while_nobody_leads_who_is_eligible_stays_so_as_nothing_is_committed():
    """The disk of the last in-sync broker is lost."""
    decisions = with_nobody_left()
    decisions.do(register(1, damaged=[(decisions.partition("orders").topic_id, (0,))]))
    decisions.do(register(2))
    assert decisions.partition("orders").leader == 2


def test_who_is_eligible_is_so_no_more_when_the_last_one_in_sync_leads_again():
    decisions = with_nobody_left()
    decisions.do(register(1))
    partition = decisions.partition("orders")
    assert (partition.leader, partition.in_sync, partition.eligible) == (1, (1,), ())


@pytest.mark.parametrize("edit", [required(1), required(None)])
def test_fewer_are_required_of_a_topic(edit: EditConfigs):
    decisions = one_of_two_left(min_insync_replicas="2")
    before = decisions.partition("orders")
    changed, configs = decisions.do(edit)
    assert isinstance(changed, PartitionsChanged)
    assert isinstance(configs, ConfigsSet)
    after = decisions.partition("orders")
    assert (after.partition_epoch, after.leader_epoch) == (before.partition_epoch + 1, before.leader_epoch)
    assert_only_the_leader_is_left(decisions)


@pytest.mark.parametrize("edit", [required(1, ALL_BROKERS), required(None, ALL_BROKERS)])
def test_fewer_are_required_by_all_brokers(edit: EditConfigs):
    decisions = one_of_two_left()
    decisions.do(edit)
    assert_only_the_leader_is_left(decisions)


def test_what_a_topic_says_itself_does_not_fall_with_what_all_brokers_say():
    decisions = one_of_two_left(min_insync_replicas="2")
    decisions.do(required(1, ALL_BROKERS))
    assert decisions.partition("orders").eligible == (2,)


def test_nobody_is_left_out_while_too_few_are_in_sync_for_what_is_required_then():
    decisions = a_cluster(1, 2, 3)
    decisions.do(create("orders", replicas=3, min_insync_replicas="3"))
    for number in (2, 3):
        decisions.do(FenceBroker(number, decisions.epoch(number)))
    assert len(decisions.do(required(2))) == 1
    assert decisions.partition("orders").eligible == (2, 3)
    decisions.do(required(1))
    assert decisions.partition("orders").eligible == ()


@pytest.mark.parametrize("number", [1, 3])
def test_a_broker_is_started_with_fewer(number: int):
    """Broker 1 has a replica; broker 3 has none, but may get one and lead."""
    decisions = Decisions()
    for each in (1, 2, 3):
        decisions.do(register(each, min_insync_replicas="2"))
    decisions.do(create("orders", replicas=2))
    decisions.do(FenceBroker(2, decisions.epoch(2)))
    assert decisions.partition("orders").eligible == (2,)
    decisions.do(register(number, min_insync_replicas="1"))
    assert_only_the_leader_is_left(decisions)


def test_what_is_required_is_not_decided_beside_in_sync_sets():
    """Decided on one state, the set would shrink under the old minimum, and commit under the new one."""
    proposal = ChangeInSync(b"x" * 16, 0, 0, 0, ())
    assert not may_share_append(required(1), proposal)
    assert not may_share_append(EditConfigs(TOPIC_RESOURCE, "orders", (), replace=True), proposal)
    harmless = EditConfigs(TOPIC_RESOURCE, "orders", (ConfigEdit("retention.ms", SET, "5"),))
    assert may_share_append(harmless, proposal)
