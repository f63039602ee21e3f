"""The caretaker's fences: which replicas shall lead in the place of a broker that died."""

from __future__ import annotations

from clusters import Decisions, a_cluster, create, register

from ottla.cluster.broker_commands import FenceBroker
from ottla.cluster.caretaker import NEWCOMER_MS, Caretaker
from ottla.cluster.commands import ChangeInSync, ReplicaEpoch
from ottla.kernel.ids import BrokerId

STARTED_MS = 1_000_000
EVERYBODY = frozenset({1, 2, 3, 4})


def four_brokers(*replicas: int, **configs: str) -> tuple[Decisions, Caretaker]:
    """One partition of four brokers that have run for long, and the caretaker of broker 2."""
    decisions = a_cluster(*sorted(EVERYBODY))
    assignment = (tuple(BrokerId(number) for number in replicas),)
    decisions.do(create("orders", -1, -1, **configs)._replace(assignment=assignment))
    caretaker = Caretaker(BrokerId(2))
    assert turn(decisions, caretaker, EVERYBODY, now_ms=0) == []
    return decisions, caretaker


def turn(decisions: Decisions, caretaker: Caretaker, live: frozenset[int], *, now_ms: int) -> list[object]:
    present = frozenset(BrokerId(number) for number in live)
    return list(caretaker.turn(decisions.state, present, decisions.epoch(2), now_ms))


def restarts(decisions: Decisions, caretaker: Caretaker, number: int, *, now_ms: int) -> None:
    """The broker dies, starts again, and is back in sync in the same moment."""
    decisions.do(FenceBroker(BrokerId(number), decisions.epoch(number)), by=2)
    decisions.do(register(number), by=number)
    assert turn(decisions, caretaker, EVERYBODY, now_ms=now_ms) == []
    now = decisions.partition("orders")
    everyone = tuple(ReplicaEpoch(one, decisions.epoch(one)) for one in now.replicas)
    joined = ChangeInSync(now.topic_id, 0, now.leader_epoch, now.partition_epoch, everyone)
    decisions.do(joined, by=now.leader)


def leader_after_the_death_of(number: int, decisions: Decisions, caretaker: Caretaker, *, now_ms: int) -> int:
    (fence,) = turn(decisions, caretaker, EVERYBODY - {number}, now_ms=now_ms)
    assert isinstance(fence, FenceBroker)
    decisions.do(fence, by=2)
    return decisions.partition("orders").leader


def test_a_broker_that_started_a_moment_ago_leads_after_one_that_has_run_for_long() -> None:
    """A client that could not reach it while it was dead may wait before it tries again."""
    decisions, caretaker = four_brokers(1, 3, 2)
    restarts(decisions, caretaker, 3, now_ms=STARTED_MS)
    assert leader_after_the_death_of(1, decisions, caretaker, now_ms=STARTED_MS + NEWCOMER_MS - 1) == 2


def test_a_broker_that_has_run_for_a_while_leads_in_the_order_of_assignment() -> None:
    """Else every leadership of a dead broker would go to the one that has run the longest."""
    decisions, caretaker = four_brokers(1, 3, 2)
    restarts(decisions, caretaker, 3, now_ms=STARTED_MS)
    assert leader_after_the_death_of(1, decisions, caretaker, now_ms=STARTED_MS + NEWCOMER_MS) == 3


def test_the_first_of_two_newcomers_to_start_leads() -> None:
    decisions, caretaker = four_brokers(1, 3, 4)
    restarts(decisions, caretaker, 4, now_ms=STARTED_MS)
    restarts(decisions, caretaker, 3, now_ms=STARTED_MS + 1)
    assert leader_after_the_death_of(1, decisions, caretaker, now_ms=STARTED_MS + 2) == 4


def test_a_newcomer_leads_if_no_other_replica_is_in_sync() -> None:
    decisions, caretaker = four_brokers(1, 3)
    restarts(decisions, caretaker, 3, now_ms=STARTED_MS)
    assert leader_after_the_death_of(1, decisions, caretaker, now_ms=STARTED_MS) == 3


def test_an_eligible_replica_that_has_run_for_long_leads_after_a_newcomer_in_sync() -> None:
    """Rule A6: the in-sync set comes first, whatever else is said of its members."""
    decisions, caretaker = four_brokers(1, 2, 3, min_insync_replicas="3")
    restarts(decisions, caretaker, 3, now_ms=STARTED_MS)
    now = decisions.partition("orders")
    smaller = tuple(ReplicaEpoch(BrokerId(one), decisions.epoch(one)) for one in (1, 3))
    decisions.do(ChangeInSync(now.topic_id, 0, now.leader_epoch, now.partition_epoch, smaller), by=1)
    assert decisions.partition("orders").eligible == (2,)
    assert leader_after_the_death_of(1, decisions, caretaker, now_ms=STARTED_MS) == 3


def test_a_dead_broker_is_no_newcomer_of_its_own_fence() -> None:
    decisions, caretaker = four_brokers(1, 2, 3)
    restarts(decisions, caretaker, 3, now_ms=STARTED_MS)
    restarts(decisions, caretaker, 1, now_ms=STARTED_MS + 1)
    (fence,) = turn(decisions, caretaker, EVERYBODY - {1}, now_ms=STARTED_MS + 2)
    assert fence == FenceBroker(BrokerId(1), decisions.epoch(1), newcomers=(BrokerId(3),))
