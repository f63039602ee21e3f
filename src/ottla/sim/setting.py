"""The world as its clients see it: the topics that exist, how to reach brokers, and where to write down what happens.

workload.py is one; clients know nothing else of it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from random import Random
from typing import Any, NamedTuple, Protocol

from ottla.kernel.ids import BrokerId
from ottla.sim.checkers.history import Event, History, LogKey
from ottla.sim.loop import SimLoop
from ottla.sim.peer import PATIENT_MS, Peers
from ottla.sim.plan import Plan, TopicPlan, TransactionPlan


class KnownTopic(NamedTuple):
    """A topic that exists, as far as the clients know."""

    plan: TopicPlan
    topic_id: bytes

    def log(self, partition: int) -> LogKey:
        return LogKey(self.topic_id.hex(), partition)


class LateLeader(NamedTuple):
    """A partition that a broker takes itself to lead, though its lease has ended."""

    broker: BrokerId
    topic: KnownTopic
    partition: int
    high_watermark: int


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

    def late_leaders(self) -> list[LateLeader]: ...

    def saw(self, event: Event) -> None: ...

    def failed(self, what: str) -> None:
        """A broker did what nothing explains."""

    def unreadable(self, reader: str, log: LogKey, position: int, why: str) -> None:
        """An answer does not parse."""


class Course(Setting, Protocol):
    """The part of the workload that starts further clients."""

    unfinished: dict[str, None]
    """The things that the end of a run still waits for."""

    def spawn(self, name: str, story: Coroutine[Any, None, None]) -> None: ...


class Ledgers(Protocol):
    """The topics that transactions are made of, for whoever moves their replicas."""

    random: Random

    def topics(self) -> tuple[KnownTopic, ...]: ...


class Administered(Setting, Protocol):
    """The part of the workload that an administrator knows, who makes and deletes topics."""

    @property
    def transactions(self) -> Ledgers | None: ...

    def learn(self, plan: TopicPlan, topic_id: bytes) -> None:
        """A topic exists under this id."""

    def forget(self, name: str) -> None: ...

    def may_delete_to(self, log: LogKey, end: int) -> int:
        """The highest offset below which nobody needs the records any more."""

    def directories_of(self, broker: BrokerId) -> Sequence[str]: ...

    def a_disk_is_lost(self) -> bool:
        """True while a broker's disk is gone and the others count on it still."""

    def keep_disks(self, keep: bool) -> None:
        """With `keep`, no disk is lost until further notice."""


class Ledger(Protocol):
    """The part of the transactional workload that its clients know."""

    @property
    def workload(self) -> Setting: ...

    plan: TransactionPlan
    ledger: KnownTopic
    """The topic in which all transactions write."""
    pause_us: tuple[int, int]

    def count(self, act: str) -> None: ...

    def spawn(self, name: str, story: Coroutine[Any, None, None]) -> None: ...


def lasting_topics(setting: Setting) -> list[KnownTopic]:
    """Topics that are never deleted, and whose records survive a loss of power."""
    return [topic for topic in setting.topics() if topic.plan.stable and not topic.plan.cached]
