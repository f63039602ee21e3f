"""The world of faults as one kind of fault sees it: the broker to strike, for how long, and the broker's return."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol

from ottla.sim.stage import Stage

if TYPE_CHECKING:
    from ottla.sim.machine import Machine


class Striking(Protocol):
    """The interface of faults.py for one kind of fault."""

    world: Stage
    random: Random
    healed: bool

    def pick(self) -> Machine:
        """Choose the machine that a fault strikes."""

    def strike_by(self, kind: str) -> None: ...

    def count(self, kind: str) -> None: ...

    def cut_from_store(self, machine: Machine, lasts_ms: int) -> bool: ...

    def for_a_while(self, end: Callable[[], None]) -> None: ...

    def lose_power(self, machine: Machine) -> None: ...

    def broker_ended(self, machine: Machine) -> None: ...
