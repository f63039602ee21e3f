"""Drives stories of the client by hand, as its faces do, and gives them answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.client.core.effects import AskAll, Begin, Drop, Finish, First, Pause, Start
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def drive(story: Coroutine[Any, Any, Any], carry_out: Callable[[Any], Any]) -> Any:
    """The story's result. `carry_out` answers its effects; an exception that it returns is raised in the story."""
    answer: Any = None
    while True:
        try:
            effect = story.throw(answer) if isinstance(answer, Exception) else story.send(answer)
        except StopIteration as end:
            return end.value
        answer = carry_out(effect)


class Begun:
    """A story beside another one, as far as it was driven."""

    def __init__(self, story: Coroutine[Any, Any, Any]) -> None:
        self.story = story
        self.done = False
        self.outcome: Any = None
        """Its result, or the error that it raised."""
        self.wakes_at = 0.0
        self._answer: Any = None

    def __del__(self) -> None:
        self.story.close()  # Python warns of a coroutine that was never begun

    def step(self, world: VirtualTime) -> None:
        """Drive it over one effect."""
        answer = self._answer
        try:
            effect = self.story.throw(answer) if isinstance(answer, Exception) else self.story.send(answer)
        except StopIteration as end:
            self.done, self.outcome = True, end.value
        except (ApiError, ClientError) as fault:
            self.done, self.outcome = True, fault
        else:
            pauses = isinstance(effect, Pause)
            self.wakes_at = world.time + effect.ms if pauses else 0.0
            self._answer = None if pauses else world.carry_out(effect)


class VirtualTime(ABC):
    """Carries out the effects of stories in a time that passes by pauses, and as `attempt` moves it."""

    def __init__(self) -> None:
        self.time = 0.0

    def run(self, story: Coroutine[Any, Any, Any]) -> Any:
        return drive(story, self.carry_out)

    def carry_out(self, effect: Any) -> Any:
        if isinstance(effect, Pause):
            self.time += effect.ms
            return None
        if isinstance(effect, AskAll):
            return [self.attempt(ask) for ask in effect.asks]
        if isinstance(effect, Begin):
            return Begun(effect.story)
        if isinstance(effect, Start):
            return object()
        if isinstance(effect, First):
            return self._first([each for each in effect.handles if isinstance(each, Begun)], effect.timeout_ms)
        if isinstance(effect, Finish) and isinstance(effect.handle, Begun):
            return effect.handle.outcome
        if isinstance(effect, Drop):
            return effect.handle.story.close() if isinstance(effect.handle, Begun) else None
        return self.attempt(effect)

    def _first(self, begun: list[Begun], timeout_ms: float) -> Begun | None:
        """Drive what was begun on; requests that were started are never answered."""
        until = self.time + timeout_ms
        while True:
            for each in begun:
                while not each.done and each.wakes_at <= self.time:
                    each.step(self)
                if each.done:
                    return each
            if self.time >= until:
                return None
            self.time = min([until, *(each.wakes_at for each in begun)])

    @abstractmethod
    def attempt(self, effect: Any) -> Any:
        """The answer to a request, or to an effect of connections; an error that is returned is raised."""


def topic_led_by(*leaders: int, epoch: int = 0) -> MetadataResponse:
    """Broker 1 and the leaders, N at b:N, and the topic `t`: the leader of each of its partitions, -1 for none."""
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
        for index, leader in enumerate(leaders)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host="b", port=node) for node in sorted({1, *leaders} - {-1})],
        controller_id=1,
        topics=[MetadataResponseTopic(name="t", partitions=partitions)],
    )
