"""The world as its clients see it: existing topics, connections to brokers, and the history to write to.

workload.py is one; clients know nothing else of it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from random import Random
from typing import Any, NamedTuple, Protocol

from ottla.access.names import ANONYMOUS
from ottla.kernel.ids import BrokerId
from ottla.sim.checkers.history import Event, History, LogKey
from ottla.sim.loop import SimLoop
from ottla.sim.peer import PATIENT_MS, Caller, Peers
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
    """True once clients are to finish."""

    def peer(self, name: str, timeout_ms: int = PATIENT_MS, *, caller: Caller = ANONYMOUS) -> Peers: ...

    def topics(self) -> list[KnownTopic]: ...

    def some_topic(self, random: Random, *, durable: bool = False) -> KnownTopic | None: ...

    def life_of(self, broker: BrokerId) -> int:
        """The number of the broker's processes that have ended."""

    def late_leaders(self) -> list[LateLeader]: ...

    def saw(self, event: Event) -> None: ...

    def failed(self, what: str) -> None:
        """Report a failure of a broker that no fault explains."""

    def unreadable(self, reader: str, log: LogKey, position: int, why: str) -> None:
        """Report an answer that cannot be parsed."""


class Course(Setting, Protocol):
    """The part of the workload that starts further clients."""

    unfinished: dict[str, None]
    """Conditions that the end of a run still waits for."""

    def spawn(self, name: str, story: Coroutine[Any, None, None]) -> None: ...


class Guarded(Course, Protocol):
    """The part of the workload that changes the rights and the quotas of clients."""

    def head(self) -> int:
        """The version of the metadata log."""

    def all_know(self, version: int) -> bool:
        """True if every broker has applied the metadata log so far."""

    def latest_wall_ms(self) -> int:
        """A time that no broker's wall clock has passed so far."""


class Ledgers(Protocol):
    """The topics that transactions depend on, for clients that move their replicas."""

    random: Random

    def topics(self) -> tuple[KnownTopic, ...]: ...


class Administered(Setting, Protocol):
    """The part of the workload for an administrator, who makes and deletes topics."""

    @property
    def transactions(self) -> Ledgers | None: ...

    def learn(self, plan: TopicPlan, topic_id: bytes) -> None:
        """Note that a topic exists under this id."""

    def forget(self, name: str) -> None: ...

    def may_delete_to(self, log: LogKey, end: int) -> int:
        """The highest offset below which no client needs the records any more."""

    def directories_of(self, broker: BrokerId) -> Sequence[str]: ...

    def a_disk_is_lost(self) -> bool:
        """True while a broker's disk is lost and the others still count on it."""

    def keep_disks(self, keep: bool) -> None:
        """With `keep`, lose no disk until further notice."""


class Ledger(Protocol):
    """The part of the transactional workload that its clients know."""

    @property
    def workload(self) -> Setting: ...

    plan: TransactionPlan
    ledger: KnownTopic
    """The topic that all transactions write to."""
    pause_us: tuple[int, int]

    def count(self, act: str) -> None: ...

    def spawn(self, name: str, story: Coroutine[Any, None, None]) -> None: ...


def lasting_topics(setting: Setting) -> list[KnownTopic]:
    """Topics that are never deleted, and whose records survive a loss of power."""
    return [topic for topic in setting.topics() if topic.plan.stable and not topic.plan.cached]
