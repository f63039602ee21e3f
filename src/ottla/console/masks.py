"""Fields that the console never shows: TOPIC:key, TOPIC:value.a.b, TOPIC:header.NAME, with * in names of topics. Pure.

A mask is put on before anything looks at the record, so a search cannot find out what it hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

STARS = "•••"
_PARTS = ("key", "value", "header")


@dataclass(frozen=True, slots=True)
class Mask:
    """One field of some topics: the part of the record and, within it, the names that lead to the field."""

    topics: str
    part: str
    path: tuple[str, ...]


def mask(text: str) -> Mask:
    """A mask from its text; ValueError says what to write."""
    topics, colon, field = text.rpartition(":")
    part, *path = field.split(".")
    if not colon or not topics or part not in _PARTS or "" in path or (part == "header" and len(path) == 0):
        raise ValueError(f"--mask {text!r}: write TOPIC:key, TOPIC:value.FIELD or TOPIC:header.NAME; TOPIC may have *")
    return Mask(topics, part, (".".join(path),) if part == "header" else tuple(path))


class Masks:
    """All masks of a console."""

    def __init__(self, masks: Sequence[Mask] = ()) -> None:
        self._masks = tuple(masks)

    def of(self, topic: str) -> tuple[Mask, ...]:
        """The masks of one topic."""
        return tuple(each for each in self._masks if fnmatchcase(topic, each.topics))


def covered(value: Any, path: Sequence[str]) -> Any:
    """The value with stars where the path leads; a list is gone through. A value without that field stays."""
    if not path:
        return value if value is None else STARS
    if isinstance(value, list):
        return [covered(each, path) for each in value]
    if isinstance(value, dict) and path[0] in value:
        return {**value, path[0]: covered(value[path[0]], path[1:])}
    return value
