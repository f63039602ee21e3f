"""Worlds with guests, with logins and with quotas: much of each happens, and nothing is lost."""

from __future__ import annotations

from random import Random

import pytest

from ottla.sim.checkers.history import Acknowledged, LoggedIn, Polled
from ottla.sim.drawing import draw_plan, with_guests, with_logins
from ottla.sim.guests import ADMITTED, DISMISSED, GUEST_ACTS, TURNED_AWAY
from ottla.sim.limiting import LIMITED
from ottla.sim.plan import Plan
from ottla.sim.world import THROTTLED, World


def a_calm_plan(brokers: int) -> Plan:
    """A plan without faults, guests and quotas."""
    plan = next(plan for seed in range(3, 100) if not (plan := draw_plan(seed, brokers)).guests)
    return plan._replace(faults=(), busy_ms=8000, limits_clients=False, transactions=None)


@pytest.mark.parametrize("brokers", [1, 3])
def test_guests_come_and_go_and_are_refused_once_they_may_not_write(brokers: int):
    result = World(with_guests(Random("guests"), a_calm_plan(brokers))).run()
    assert result.anomalies == []
    assert all(result.acts[act] for act in (ADMITTED, DISMISSED, TURNED_AWAY)), result.acts


@pytest.mark.parametrize("brokers", [1, 3])
def test_guests_that_log_in_are_served_and_refused_once_a_session_or_a_token_has_ended(brokers: int):
    world = World(with_logins(Random("logins"), with_guests(Random("guests"), a_calm_plan(brokers))))
    result = world.run()
    assert result.anomalies == []
    assert all(result.acts[act] for act in GUEST_ACTS), result.acts
    events = world.history.events
    assert {each.session.partition("/")[0] for each in events if isinstance(each, LoggedIn)} >= {"guest1", "guest2"}
    assert any(isinstance(each, Acknowledged) and each.producer == "guest1" for each in events)
    assert any(isinstance(each, Polled) and each.reader.startswith("guest1.") for each in events)


@pytest.mark.parametrize("brokers", [1, 3])
def test_clients_over_their_quotas_wait_and_lose_nothing(brokers: int):
    result = World(a_calm_plan(brokers)._replace(limits_clients=True)).run()
    assert result.anomalies == []
    assert result.acts[LIMITED] and result.acts[THROTTLED], result.acts


def test_a_world_without_guests_and_quotas_counts_none():
    result = World(a_calm_plan(1)).run()
    assert not any(result.acts[act] for act in (*GUEST_ACTS, LIMITED, THROTTLED))
