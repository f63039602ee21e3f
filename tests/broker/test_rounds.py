"""Rounds of recurring work come again, also after one that failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.rounds import Rounds
from ottla.broker.waiting import Deadlines
from ottla.sim.loop import SimLoop


def test_a_round_that_fails_by_a_fault_of_its_own_comes_again() -> None:
    loop = SimLoop(1)
    around: Any = SimpleNamespace(deadlines=Deadlines(loop))
    nothing: Any = None
    rounds = Rounds(around, nothing, nothing, nothing, nothing, nothing, nothing)
    came: list[int] = []

    def work() -> None:
        came.append(loop.mono_ms())
        raise ZeroDivisionError

    rounds._every("test", lambda: 100, work)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            loop.run_for(100)
    assert len(came) == 3
