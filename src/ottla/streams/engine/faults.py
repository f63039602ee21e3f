"""Failures of a task's records: each ends the run, or is kept as a fault of the batch, by the choice of its stage."""

from __future__ import annotations

import traceback

from ottla.streams.errors import ProcessingError
from ottla.streams.on_error import Choice, Fault, OnError
from ottla.streams.values import Input, Place


class Faults:
    """The faults of a batch until they are taken."""

    def __init__(self, choices: OnError) -> None:
        self._choices = choices
        self._kept: list[Fault] = []
        self._lettered: set[Place] = set()

    def add(self, stage: str, node: str, reason: str, error: Exception, read: Input | None) -> None:
        """Keep a failure, or raise ProcessingError where the run is to fail."""
        choice: Choice = getattr(self._choices, stage)
        if choice is Choice.FAIL:
            raise ProcessingError(reason) from error
        letter = choice is Choice.DEAD_LETTER and read is not None and read.place not in self._lettered
        trace = ""
        if letter and read is not None:
            self._lettered.add(read.place)
            trace = "".join(traceback.format_exception(error))
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        self._kept.append(Fault(stage, node, reason, name, trace, read, letter))

    def take(self) -> tuple[Fault, ...]:
        """The faults since the last call."""
        taken, self._kept = tuple(self._kept), []
        self._lettered.clear()
        return taken
