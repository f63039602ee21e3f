"""A deadline for a story: what it awaits is cut to the time that is left, and nothing more is begun afterwards."""

from __future__ import annotations

import copy
from collections.abc import Generator
from types import coroutine
from typing import Any, TypeVar

from ottla.client.core.effects import Ask, AskAll, ClientStory, Effect, First, Pause, Start
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ClientError, RequestTimedOut
from ottla.kernel.errors import ApiError

T = TypeVar("T")


@coroutine
def within(plan: ClusterPlan, timeout_ms: float, story: ClientStory[T]) -> Generator[Effect, Any, T]:
    """Await a story that gets `timeout_ms`: after them everything that it awaits raises RequestTimedOut in it.

    A connection that is being made is waited for all the same, for at most `connect_timeout_ms`.
    """
    deadline_ms = plan.now_ms() + timeout_ms
    answer: Any = None
    fault: Exception | None = None
    while True:
        try:
            effect = story.send(answer) if fault is None else story.throw(fault)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = fault = None
        left_ms = deadline_ms - plan.now_ms()
        if left_ms <= 0:
            fault = RequestTimedOut(f"not done within {timeout_ms:.0f} ms")
            continue
        try:
            answer = yield _cut(effect, left_ms, plan.settings.request_timeout_ms)
        except (ClientError, ApiError) as failed:
            fault = failed
        except BaseException:
            story.close()
            raise


def _cut(effect: Effect, left_ms: float, request_timeout_ms: int) -> Effect:
    """The effect, if need be one that takes less time."""

    def shorter(ask: Ask[Any]) -> Ask[Any]:
        ask = copy.copy(ask)
        ask.timeout_ms = max(1, min(ask.timeout_ms or request_timeout_ms, int(left_ms)))
        return ask

    if isinstance(effect, Ask):
        return shorter(effect)
    if isinstance(effect, AskAll):
        return AskAll([shorter(ask) for ask in effect.asks])
    if isinstance(effect, Start):
        return Start(shorter(effect.ask))
    if isinstance(effect, First):
        return First(effect.handles, min(effect.timeout_ms, left_ms))
    if isinstance(effect, Pause):
        return Pause(min(effect.ms, left_ms))
    return effect
