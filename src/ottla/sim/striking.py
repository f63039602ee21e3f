"""The faults of a world as one kind of them sees all: whom to strike, for how long, and what becomes of a broker."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol

from ottla.sim.stage import Stage

if TYPE_CHECKING:
    from ottla.sim.machine import Machine


class Striking(Protocol):
    """faults.py is one."""

    world: Stage
    random: Random
    healed: bool

    def pick(self) -> Machine:
        """The broker that a fault strikes."""

    def strike_by(self, kind: str) -> None: ...

    def count(self, kind: str) -> None: ...

    def cut_from_store(self, machine: Machine, lasts_ms: int) -> bool: ...

    def for_a_while(self, end: Callable[[], None]) -> None: ...

    def lose_power(self, machine: Machine) -> None: ...

    def broker_ended(self, machine: Machine) -> None: ...
