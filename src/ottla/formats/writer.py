"""A schema as its writer registered it. Apart from rows.py, so that a planner need not load Arrow to speak of one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A schema's text as its writer registered it.

    `references` are the texts it refers to with the names it refers to them by, each behind those it needs itself.
    """

    kind: str
    text: str
    named_references: tuple[tuple[str, str], ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """The texts alone."""
        return tuple(text for _, text in self.named_references)
