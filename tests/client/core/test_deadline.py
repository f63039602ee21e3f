"""A story with a deadline: what it awaits is cut to the time left, and nothing is begun afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.stories import drive

from ottla.client.core.deadline import within
from ottla.client.core.effects import Ask, AskAll, First, Pause, Start
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ConnectionLost, RequestTimedOut
from ottla.client.model import ClientSettings, Destination
from ottla.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

WHERE = Destination("b", 1)


class Clock:
    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms


def ask(timeout_ms: int | None = None) -> Ask[Any]:
    return Ask(WHERE, HeartbeatRequest, HeartbeatResponse, lambda _: HeartbeatRequest(), timeout_ms=timeout_ms)


def a_plan(clock: Clock) -> ClusterPlan:
    return ClusterPlan("b:1", ClientSettings(request_timeout_ms=30_000), clock)


@pytest.mark.parametrize(
    ("left_ms", "asked_ms", "given_ms"),
    [(1_000, None, 1_000), (60_000, None, 30_000), (1_000, 5_000, 1_000), (60_000, 5_000, 5_000)],
)
def test_a_request_is_waited_for_no_longer_than_the_story_has_left(
    left_ms: int, asked_ms: int | None, given_ms: int
) -> None:
    seen: list[Any] = []

    async def story() -> None:
        await ask(asked_ms)
        await AskAll([ask(asked_ms)])
        await Start(ask(asked_ms))

    drive(within(a_plan(Clock()), left_ms, story()), seen.append)
    assert [seen[0].timeout_ms, seen[1].asks[0].timeout_ms, seen[2].ask.timeout_ms] == [given_ms] * 3


def test_waiting_ends_with_the_time_of_the_story() -> None:
    seen: list[Any] = []

    async def story() -> str:
        await Pause(5_000)
        await Pause(10)
        await First([], 7_000)
        return "done"

    assert drive(within(a_plan(Clock()), 1_000, story()), seen.append) == "done"
    assert [seen[0].ms, seen[1].ms, seen[2].timeout_ms] == [1_000, 10, 1_000]


def test_nothing_is_begun_after_the_deadline() -> None:
    clock = Clock()
    seen: list[Any] = []

    def late(effect: Any) -> None:
        seen.append(effect)
        clock.ms += 2_000

    async def story() -> None:
        await Pause(1)
        await ask()

    with pytest.raises(RequestTimedOut):
        drive(within(a_plan(clock), 1_000, story()), late)
    assert len(seen) == 1


def test_the_story_learns_of_a_failed_request() -> None:
    async def story() -> str:
        try:
            await ask()
        except ConnectionLost:
            return "lost"
        return "answered"

    assert drive(within(a_plan(Clock()), 1_000, story()), lambda _: ConnectionLost("gone")) == "lost"
