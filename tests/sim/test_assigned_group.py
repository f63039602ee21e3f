"""Worlds with several members of one KIP-848 group: no partition is owned twice, and a removed safeguard is noticed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.sim.drawn import without_what_came_last

from ottla.groups import consumer_members
from ottla.groups.consumer_group import ConsumerGroup
from ottla.kernel.errors import ErrorCode
from ottla.sim.assigned_group import ASSIGNED_ACTS, AssignedGroup
from ottla.sim.drawing import draw_plan
from ottla.sim.plan import Plan
from ottla.sim.world import Result, World

(_MOVED,) = ASSIGNED_ACTS
_OPTIONS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}
"""Short times, for worlds that last some seconds."""


def plan_of(seed: int, brokers: int) -> Plan:
    """An ordinary world in which three members share a topic of three partitions."""
    plan = without_what_came_last(draw_plan(seed, brokers))
    kept = plan.topics[0]._replace(partitions=3)
    return plan._replace(
        assigned_members=3,
        topics=(kept, *plan.topics[1:]),
        broker_texts=tuple(sorted((dict(plan.broker_texts) | _OPTIONS).items())),
        transactions=None,
        decays=False,
        rolls_back=False,
    )


def run(seed: int, brokers: int) -> tuple[Result, AssignedGroup]:
    world = World(plan_of(seed, brokers))
    result = world.run()
    return result, world.workload.assigned


def complaints(seed: int, brokers: int) -> str:
    return " ".join(what for _, what in run(seed, brokers)[0].anomalies)


@pytest.mark.parametrize(("seed", "brokers", "refused"), [(5, 1, 0), (3, 3, 0), (11, 3, 1)])
def test_members_share_a_topic_through_faults(seed: int, brokers: int, refused: int):
    result, group = run(seed, brokers)
    assert result.anomalies == []
    assert group.done[_MOVED] >= 3, "partitions went from member to member"
    assert group.refused_commits >= refused, "members that were put out tried to commit"


def test_it_is_seen_when_a_partition_is_given_before_it_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ConsumerGroup, "owner", lambda self, topic_id, index: None)
    assert "still holds a partition" in complaints(5, 1)


def test_it_is_seen_when_a_commit_of_a_member_that_was_put_out_is_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(consumer_members, "commit_error", lambda group, request, version: ErrorCode.NONE)
    assert "was taken for another's partition" in complaints(11, 3)


@pytest.mark.parametrize(("epoch", "taken"), [(8, False), (11, True), (12, True)])
def test_a_late_answer_of_an_earlier_epoch_takes_nothing_from_a_member_of_a_later_one(epoch: int, taken: bool):
    """World 218914: the old member's answer had waited for the group's log, and came after the new member's."""
    setting: Any = SimpleNamespace(plan=SimpleNamespace(seed=1), peer=lambda name: None, failed=lambda what: None)
    group = AssignedGroup(setting, 2)
    old, new = group.members
    place = (bytes(16), 1)
    new.epoch, new.reading = 11, {place}
    group.was_told(old.member_id, epoch, {place})
    assert new.taken == ({place} if taken else set())
