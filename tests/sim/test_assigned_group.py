"""Worlds with several members of one KIP-848 group: nothing is promised twice, and a promise taken away is seen."""

from __future__ import annotations

import pytest

from ottla.groups import consumer_members
from ottla.groups.consumer_group import ConsumerGroup
from ottla.kernel.errors import ErrorCode
from ottla.sim.assigned_group import OPTIONS, AssignedGroup
from ottla.sim.plan import Plan, draw_plan
from ottla.sim.world import Result, World


def plan_of(seed: int, brokers: int) -> Plan:
    """An ordinary world in which three members share a topic of three partitions."""
    plan = draw_plan(seed, brokers)
    kept = plan.topics[0]._replace(partitions=3)
    return plan._replace(
        assigned_members=3,
        topics=(kept, *plan.topics[1:]),
        broker_texts=tuple(sorted((dict(plan.broker_texts) | OPTIONS).items())),
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


@pytest.mark.parametrize(("seed", "brokers", "refused"), [(1, 1, 0), (1, 3, 0), (2, 3, 1), (3, 1, 0)])
def test_members_share_a_topic_through_faults(seed: int, brokers: int, refused: int):
    result, group = run(seed, brokers)
    assert result.anomalies == []
    assert group.told_moves >= 3, "partitions went from member to member"
    assert group.refused_commits >= refused, "members that were put out tried to commit"


def test_it_is_seen_when_a_partition_is_given_before_it_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ConsumerGroup, "owner", lambda self, topic_id, index: None)
    assert "had not given up" in complaints(3, 1)


def test_it_is_seen_when_a_commit_of_a_member_that_was_put_out_is_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(consumer_members, "commit_error", lambda group, request, version: ErrorCode.NONE)
    assert "was taken for another's partition" in complaints(2, 3)
