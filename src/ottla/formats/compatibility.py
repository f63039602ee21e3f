"""Levels of compatibility, which earlier versions and which directions each of them asks for, and what is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

S = TypeVar("S")


class InvalidSchema(ValueError):
    """The text is not a schema of its type; the message says why."""


class CompatibilityLevel(StrEnum):
    """The demand on a new version beside earlier ones. Names are those of Confluent's API."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """True if all earlier versions count, not the last one alone."""
        return self.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        return self.startswith(("FORWARD", "FULL"))


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason why a reader does not understand all that a writer may write."""

    kind: str
    """In capitals with underscores, for programs."""
    path: str
    """The place in the reader's schema, as a JSON pointer or a dotted name."""
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.path or '/'}: {self.detail}"


def find_incompatibilities(
    level: CompatibilityLevel, new: S, earlier: Sequence[S], check: Callable[[S, S], list[Incompatibility]]
) -> tuple[int, list[str]]:
    """The index in `earlier` (oldest first) of the first version that conflicts, and why; (-1, []) where none does.

    `check(reader, writer)` compares two schemas. The newest version is looked at first.
    """
    counted = range(len(earlier) - 1, -1 if level.is_transitive else max(len(earlier) - 2, -1), -1)
    for index in counted:
        found = []
        if level.new_reads_old:
            found += [f"the new schema cannot read the old one: {each}" for each in check(new, earlier[index])]
        if level.old_reads_new:
            found += [f"the old schema cannot read the new one: {each}" for each in check(earlier[index], new)]
        if found:
            return index, found
    return -1, []
