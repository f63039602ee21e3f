"""What readers of single formats take and give: a writer's schema, and an array of the rows that were good."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ottla.formats.arrays import Mask


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


@dataclass(frozen=True, slots=True)
class Block:
    """One value per good row, which rows those are, and why others could not be read."""

    array: pa.Array
    good: Mask
    faults: list[tuple[int, str]]
