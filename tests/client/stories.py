"""Drives stories of the client by hand, as its faces do, and gives them answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.client.core.effects import AskAll, Pause
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
        return self.attempt(effect)

    @abstractmethod
    def attempt(self, effect: Any) -> Any:
        """The answer to a request, or to another effect than a pause; an error that is returned is raised."""


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
