"""Deadlines for stories: how long they may take in all, or how long they try again while brokers are away."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from types import coroutine
from typing import Any, TypeVar

from ottla.client.core.effects import Ask, AskAll, ClientStory, Effect, First, Pause, Start
from ottla.client.core.plan import UNKNOWN_TOPIC_PATIENCE_MS, ClusterPlan
from ottla.client.errors import ClientError, RequestTimedOut
from ottla.kernel.errors import ApiError

T = TypeVar("T")
Fault = ClientError | ApiError


class BrokersAway(ClientError):
    """The deadline passed while a broker could not be reached, which `__cause__` says then, or could not serve yet."""


@coroutine
def within(plan: ClusterPlan, timeout_ms: float, story: ClientStory[T]) -> Generator[Effect, Any, T]:
    """Await a story that gets `timeout_ms`: after them everything that it awaits raises RequestTimedOut in it.

    A connection that is being made is waited for all the same, for at most `connect_timeout_ms`.
    """
    deadline_ms = plan.now_ms() + timeout_ms

    def cut(effect: Effect, _last: Fault | None) -> Effect | ClientError:
        left_ms = deadline_ms - plan.now_ms()
        if left_ms <= 0:
            return RequestTimedOut(f"not done within {timeout_ms:.0f} ms")
        return _cut(effect, left_ms, plan.settings.request_timeout_ms)

    return (yield from _carried_on(story, cut))


@coroutine
def while_brokers_answer(plan: ClusterPlan, deadline_ms: float, story: ClientStory[T]) -> Generator[Effect, Any, T]:
    """Await a story that may wait as long as brokers answer; where one does not, it tries again until the deadline.

    Raises BrokersAway in the story then, where it would pause before it tries once more. A broker that answers with a
    refusal which may pass is asked again until the deadline, too, and at least for as long as a topic may be unknown.
    """
    refused_until_ms = max(deadline_ms, plan.now_ms() + UNKNOWN_TOPIC_PATIENCE_MS)

    def cut(effect: Effect, last: Fault | None) -> Effect | ClientError:
        if not isinstance(effect, Pause):
            return effect
        left_ms = (refused_until_ms if last is None else deadline_ms) - plan.now_ms()
        if left_ms > 0:
            return Pause(min(effect.ms, left_ms))
        away = BrokersAway("brokers refuse for a time what is asked" if last is None else str(last))
        away.__cause__ = last
        return away

    return (yield from _carried_on(story, cut))


def _carried_on(
    story: ClientStory[T], cut: Callable[[Effect, Fault | None], Effect | ClientError]
) -> Generator[Effect, Any, T]:
    """Drive a story to its end: each effect as `cut` gives it back, or the error that `cut` has instead.

    `cut` also hears of the error with which the effect before ended.
    """
    answer: Any = None
    fault: Fault | None = None
    while True:
        try:
            effect = story.send(answer) if fault is None else story.throw(fault)
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(answer, list):  # several answers, some of which may be errors
            fault = next((each for each in answer if isinstance(each, ClientError)), None)
        last, answer, fault = fault, None, None
        instead = cut(effect, last)
        if isinstance(instead, ClientError):
            fault = instead
            continue
        try:
            answer = yield instead
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
