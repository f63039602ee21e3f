"""The world as its clients see it: the topics that exist, how to reach brokers, and where to write down what happens.

workload.py is one; clients know nothing else of it.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple, Protocol

from ottla.kernel.ids import BrokerId
from ottla.sim.checkers.history import Event, History, LogKey
from ottla.sim.loop import SimLoop
from ottla.sim.peer import PATIENT_MS, Peers
from ottla.sim.plan import Plan, TopicPlan


class KnownTopic(NamedTuple):
    """A topic that exists, as far as the clients know."""

    plan: TopicPlan
    topic_id: bytes

    def log(self, partition: int) -> LogKey:
        return LogKey(self.topic_id.hex(), partition)


class Setting(Protocol):
    """The part of the workload that clients know."""

    plan: Plan
    loop: SimLoop
    history: History
    ending: bool
    """Clients are to come to their end."""

    def peer(self, name: str, timeout_ms: int = PATIENT_MS) -> Peers: ...

    def topics(self) -> list[KnownTopic]: ...

    def some_topic(self, random: Random, *, durable: bool = False) -> KnownTopic | None: ...

    def life_of(self, broker: BrokerId) -> int:
        """The number of its processes that have ended."""

    def saw(self, event: Event) -> None: ...

    def failed(self, what: str) -> None:
        """A broker did what nothing explains."""

    def unreadable(self, reader: str, log: LogKey, position: int, why: str) -> None:
        """An answer does not parse."""


def lasting_topics(setting: Setting) -> list[KnownTopic]:
    """Topics that are never deleted, and whose records survive a loss of power."""
    return [topic for topic in setting.topics() if topic.plan.stable and not topic.plan.cached]
