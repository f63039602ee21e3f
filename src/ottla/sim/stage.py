"""The world as its faults and its workload see it; world.py is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from ottla.kernel.ids import BrokerId
from ottla.sim.checkers.history import Anomaly, Event, History
from ottla.sim.loop import SimLoop
from ottla.sim.network import Network
from ottla.sim.plan import Plan

if TYPE_CHECKING:
    from ottla.coordination.memory import MemoryStore
    from ottla.sim.checkers.invariants import Invariants
    from ottla.sim.machine import Machine


class Stage(Protocol):
    """The parts of a world that others may act on, and that report to it."""

    plan: Plan
    loop: SimLoop
    history: History
    network: Network
    store: MemoryStore
    machines: dict[BrokerId, Machine]
    invariants: Invariants

    def all_know(self, version: int) -> bool:
        """True if every broker has applied the metadata log so far."""

    def note(self, what: str) -> None: ...

    def saw(self, event: Event) -> None: ...

    def disturbed(self, what: str) -> None: ...

    def power_lost(self, machine: Machine) -> None: ...

    def hold(self, broken: Iterable[Anomaly]) -> None:
        """Record broken invariants."""
