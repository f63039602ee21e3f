"""The common part of the writers of encoders and decoders: lines of source, names for them, and least sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

from ottla.schema.message import Field, MessageSchema, schema_of
from ottla.schema.types import Array, Blob, Fixed, Text

LONGEST_STRING = 0x7FFF
SHORT = 9
"""Arrays of fewer numbers than this go through a prepared `Struct`; replica lists nearly always do."""


class SourceWriter:
    """Collects the lines of one function, and the objects that they name."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, object] = {}
        self._made = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def open(self, text: str) -> None:
        """A line that begins a block; `close` ends it."""
        self.line(text)
        self.depth += 1

    def close(self) -> None:
        if self.lines[-1].endswith(":"):
            self.line("pass")
        self.depth -= 1

    def made(self, prefix: str) -> str:
        """A name that is not used yet."""
        self._made += 1
        return f"{prefix}{self._made}"

    def named(self, prefix: str, value: object) -> str:
        """A name for an object; the same object keeps its name."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.made(prefix)
        self.names[name] = value
        return name

    def refuse(self, path: str, why: str) -> None:
        self.line(f"raise Malformed({f'{self.title}: {path} {why}'!r})")


def is_compact(schema: MessageSchema, each: Field, version: int) -> bool:
    """True if lengths of the field are varints."""
    return each.flexible and schema.is_flexible(version)


def least_size(kind: Any, version: int, *, compact: bool, nullable: bool) -> int:
    """The fewest bytes that a value of this type takes; bounds how many of them a frame can hold."""
    if isinstance(kind, Fixed):
        return kind.size
    if isinstance(kind, Text):
        return 1 if compact else 2
    if isinstance(kind, Blob | Array):
        return 1 if compact else 4
    if nullable:
        return 1
    schema = schema_of(kind)
    inside = sum(
        least_size(
            each.kind,
            version,
            compact=is_compact(schema, each, version),
            nullable=each.is_nullable(version),
        )
        for each in schema.fields_in(version)
    )
    return inside + (1 if schema.is_flexible(version) else 0)


class ShortRuns(NamedTuple):
    """For each count below `SHORT`, the functions that read and write that many numbers of a type."""

    unpackers: tuple[Callable[..., tuple[Any, ...]], ...]
    packers: tuple[Callable[..., bytes], ...]


@cache
def short_runs(code: str) -> ShortRuns:
    structs = [Struct(f">{count}{code}") for count in range(SHORT)]
    return ShortRuns(tuple(each.unpack_from for each in structs), tuple(each.pack for each in structs))
