"""Values that are read together before their records are processed, for serdes that read many at a lower cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.streams.errors import SerdeError
from ottla.streams.graph import SourceNode
from ottla.streams.values import Input, Place


class Ahead:
    """Values by the places of their records, each until it is asked for."""

    def __init__(self) -> None:
        self._values: dict[Place, Any] = {}

    def take(self, records: Sequence[Input], sources: Mapping[str, SourceNode]) -> None:
        """Read the values of records whose serdes can read many."""
        if len(records) < 2:
            return
        by_topic: dict[str, list[Input]] = {}
        for record in records:
            if sources[record.place.topic].value.read_all is not None:
                by_topic.setdefault(record.place.topic, []).append(record)
        for topic, mine in by_topic.items():
            values = sources[topic].value.from_bytes_of([record.value for record in mine])
            self._values.update(zip((record.place for record in mine), values, strict=True))

    def value(self, source: SourceNode, record: Input) -> Any:
        """The value of a record; SerdeError if it could not be read."""
        if not self._values or record.place not in self._values:
            return source.value.from_bytes(record.value)
        value = self._values.pop(record.place)
        if isinstance(value, SerdeError):
            raise value
        return value
