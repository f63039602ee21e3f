"""The path to a field: its name alone, or names joined by dots, of which some are quoted by back-ticks (KIP-821)."""

from __future__ import annotations

import re
from typing import Any

from ottla.connect.data import Schema, Struct
from ottla.connect.errors import ConfigException
from ottla.connect.transforms.sides import require_map

_STEP = re.compile(r"`((?:[^`]|`(?!\.|\Z)|(?<=\\)`(?=\.))*)(?<!\\)`(\.|\Z)|([^.`][^.]*|)(\.|\Z)")
"""One name, quoted or not, and the dot behind it. A back-tick closes before a dot or the end, unless escaped."""


class FieldPath:
    """Finds a field in a schema, a struct or a map."""

    def __init__(self, text: str, *, nested: bool) -> None:
        self.text = text
        self.steps: tuple[str, ...] = tuple(_steps(text)) if nested else (text,)
        """The names on the way to the field."""

    def schema(self, schema: Schema) -> Schema | None:
        """The field's schema, None where there is no such field."""
        for step in self.steps:
            member = schema.field(step)
            if member is None:
                return None
            schema = member.schema
        return schema

    def in_struct(self, value: Struct, *, fill: bool) -> Any:
        """The field's value; null below a struct that is null."""
        found: Any = value
        for step in self.steps:
            if type(found) is not Struct:
                return None
            member = found.schema.places[step]
            item = found.values[member.index]
            found = member.schema.default if item is None and fill else item
        return found

    def in_map(self, value: dict[Any, Any]) -> Any:
        """The field's value; null where a part of the path is missing."""
        found: Any = value
        for step in self.steps:
            if found is None:
                return None
            found = require_map(found, "nested field access").get(step)
        return found


def _steps(text: str) -> list[str]:
    """The names of a path."""
    steps, at = [], 0
    while True:
        found = _STEP.match(text, at)
        if found is None:
            raise ConfigException(
                f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick at position "
                f"{at} to escape it"
            )
        quoted, _, plain, _ = found.groups()
        steps.append(plain if quoted is None else re.sub(r"\\`(?=\.)", "`", quoted))
        at = found.end()
        if not (found[2] or found[4]):
            return steps
