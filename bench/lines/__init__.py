"""The lines of the race. A module here declares `LINES`; `bench/race.py` finds it by itself.

A line is measured for each of its two contestants in turn, ours first: `measure(rig, contestant)` makes one run and
returns figures by key; `warm(rig, contestant)` is called once before the first run and is not counted; `finish(rig)`
is called once, after the last line that has the same `finish`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from bench.rig import Rig

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a line: its meaning, and the wanted ratio of ours to theirs."""

    key: str
    title: str
    unit: str
    more_is_better: bool = True
    at_least: float | None = None
    at_most: float | None = None

    def reached(self, ratio: float) -> bool | None:
        """True if the ratio reaches the goal; None if there is no goal."""
        if self.at_least is not None:
            return ratio >= self.at_least
        return ratio <= self.at_most if self.at_most is not None else None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the race."""

    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Rig, str], Figures]
    warm: Callable[[Rig, str], None] | None = None
    finish: Callable[[Rig], None] | None = None
    contestants: tuple[str, str] = ("ottla", "kafka")
    rounds: int = 5
    order: int = 50
    ceiling_of: str = ""
    """The name of the line in which the bare server stands in our place here."""


def all_lines() -> list[Line]:
    """The lines of all modules here, in the order of the modules."""
    found: list[Line] = []
    for module in pkgutil.iter_modules(__path__):
        found += importlib.import_module(f"{__name__}.{module.name}").LINES
    return sorted(found, key=lambda line: (line.order, line.name))
