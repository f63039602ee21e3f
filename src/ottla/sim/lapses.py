"""Brokers that are cut off from the store for longer than their lease lasts, drawn apart from all other faults.

A client keeps asking them meanwhile (clinging.py); faults.py cuts them off, counts and heals them.
"""

from __future__ import annotations

from random import Random

from ottla.sim.plan import CUT_COORDINATION
from ottla.sim.striking import Striking

_FIRST_MS, _AGAIN_MS = (300, 1500), (500, 2500)
_LONGER_MS = (300, 1500)


class Lapses:
    """Part of `Faults`."""

    def __init__(self, faults: Striking) -> None:
        self._faults = faults
        self._world = faults.world
        self._random = Random(f"lapses-{faults.world.plan.seed}")

    def begin(self) -> None:
        self._world.loop.call_later(self._random.randint(*_FIRST_MS), self._strike)

    def _strike(self) -> None:
        """Cut a broker off for longer than its lease, which lasts two thirds of the session."""
        if self._faults.healed:
            return
        session_ms = int(dict(self._world.plan.broker_texts)["broker.session.timeout.ms"])
        lasts_ms = session_ms * 2 // 3 + self._random.randint(*_LONGER_MS)
        machine = self._random.choice(list(self._world.machines.values()))
        if self._faults.cut_from_store(machine, lasts_ms):
            self._faults.count(CUT_COORDINATION)
        self._world.loop.call_later(lasts_ms + self._random.randint(*_AGAIN_MS), self._strike)
