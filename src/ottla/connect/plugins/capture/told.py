"""Warnings about captured tables, once each, in the log of the worker."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.connect.errors import ConfigException
from ottla.connect.plugins.capture.shapes import Shape

log = logging.getLogger("ottla.connect")


class Told:
    """Remembers what was said."""

    def __init__(self) -> None:
        self._seen: dict[str, Shape] = {}
        self._said: set[tuple[str, str]] = set()

    def look(self, shapes: Sequence[Shape]) -> None:
        """Say what tables lack."""
        for shape in shapes:
            self._seen[shape.table.full_name] = shape
            for column, kind in shape.without:
                self.say(shape.table.full_name, column, f"is left out: Connect has no form for the type {kind}; see "
                         "include.unknown.datatypes")  # fmt: skip

    def tell(self) -> None:
        """Say which values could not be held."""
        for shape in self._seen.values():
            for column, reason in shape.refused.items():
                self.say(shape.table.full_name, column, reason)

    def say(self, table: str, column: str, sentence: str) -> None:
        """Say a sentence of a column, of a table, or of all."""
        if (table, column) not in self._said:
            self._said.add((table, column))
            log.warning("%s%s: %s", table or "all tables", f".{column}" if column else "", sentence)


def require_own_topics(shapes: Sequence[Shape]) -> None:
    """Refuse tables whose names are the same as topics, since some characters become underscores there."""
    found: dict[str, str] = {}
    for each in shapes:
        other = found.setdefault(each.topic, each.table.full_name)
        if other != each.table.full_name:
            raise ConfigException(
                f"{other} and {each.table.full_name} would share a topic, {each.topic}: leave one out"
            )
