"""Reads and computes many records of a batch at once, before they are processed one by one.

Behind a source, a chain of nodes that take columns is computed and left out of the way of each record. Where the chain
parts, the nodes behind are told what they will make. All that is kept is of the batch at work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.streams.column import ValueColumn, tried
from ottla.streams.engine.together import BatchRows, Together
from ottla.streams.errors import ProcessingError, SerdeError, TopologyError
from ottla.streams.graph import AnyNode, SourceNode
from ottla.streams.values import Input, Place

LEFT_OUT = object()


class Ahead:
    """Known results of records, each until it is asked for."""

    def __init__(self, children: Mapping[str, Sequence[AnyNode]], processors: Mapping[str, Any]) -> None:
        """The nodes behind each node, and the processors by name."""
        self._values: dict[Place, Any] = {}
        self._ready: dict[int, Any] = {}
        self._together = {name: one for name, one in processors.items() if isinstance(one, Together)}
        self._children = children
        self._chains = {name: self._chain(name) for name in children}

    def take(self, records: Sequence[Input], sources: Mapping[str, SourceNode]) -> None:
        """Read records whose serdes can read many, and compute the nodes behind that can take many."""
        self._ready = {}
        for one in self._together.values():
            one.forget()
        if len(records) < 2:
            return
        by_topic: dict[str, list[Input]] = {}
        for record in records:
            by_topic.setdefault(record.place.topic, []).append(record)
        for topic, mine in by_topic.items():
            source = sources[topic]
            if self._chains[source.name] or self._behind(source.name):
                self._compute(source, mine)
            elif source.value.read_all is not None:
                values = source.value.from_bytes_of([record.value for record in mine])
                self._values.update(zip((record.place for record in mine), values, strict=True))

    def value(self, source: SourceNode, record: Input) -> Any:
        """The value of a record; SerdeError if it could not be read."""
        if not self._values or record.place not in self._values:
            return source.value.from_bytes(record.value)
        value = self._values.pop(record.place)
        if isinstance(value, SerdeError):
            raise value
        return value

    def ready(self, record: Input) -> Any:
        """The key and the value at the end of the source's chain, LEFT_OUT, or None where they are to be made."""
        return self._ready.pop(id(record), None) if self._ready else None

    def end(self, source: str) -> str:
        """The last node of a source's chain, or the source itself."""
        return self._chains[source][-1] if self._chains[source] else source

    def _chain(self, name: str) -> list[str]:
        """Nodes that take columns, each the only one behind the one before."""
        children = self._children.get(name, ())
        if len(children) != 1 or children[0].name not in self._behind(name):
            return []
        return [children[0].name, *self._chain(children[0].name)]

    def _behind(self, name: str) -> list[str]:
        """The nodes behind a node that take columns and get records from it alone."""
        children = self._children.get(name, ())
        return [node.name for node in children if node.name in self._together and node.parents == (name,)]

    def _compute(self, source: SourceNode, records: list[Input]) -> None:
        rows = _read(source, records)
        read = rows.at.listed()
        try:
            for name in self._chains[source.name]:
                rows = self._together[name].apply(rows)
        except (ProcessingError, TopologyError):
            raise
        except Exception:
            return  # each record is tried alone when its turn comes, and so the one that fails is known
        if self._chains[source.name]:
            pairs = rows.pairs(len(records))
            self._ready.update((id(records[at]), pairs[at] or LEFT_OUT) for at in read)
        self._part(self.end(source.name), rows, [record.place for record in records])

    def _part(self, name: str, rows: BatchRows, places: list[Place]) -> None:
        """Tell the nodes behind a node what they will make of these rows."""
        for behind in self._behind(name):
            try:
                made = self._together[behind].apply(rows)
            except (ProcessingError, TopologyError):
                raise
            except Exception:
                continue
            at = rows.at.listed()
            pairs = made.pairs(len(places))
            self._together[behind].expect([places[each] for each in at], [pairs[each] for each in at])
            self._part(behind, made, places)


def _read(source: SourceNode, records: list[Input]) -> BatchRows:
    """The records that their serdes can read."""
    datas = [record.key for record in records], [record.value for record in records]
    keys, values = ValueColumn.of_bytes(source.key, datas[0]), ValueColumn.of_bytes(source.value, datas[1])
    if keys is not None and values is not None:
        return BatchRows(ValueColumn(range(len(records))), keys, values)
    every_key = tried(source.key, datas[0]) if keys is None else keys.listed()
    every_value = tried(source.value, datas[1]) if values is None else values.listed()
    read = [
        row
        for row in zip(range(len(records)), every_key, every_value, strict=True)
        if not isinstance(row[1], SerdeError) and not isinstance(row[2], SerdeError)
    ]
    return BatchRows(*(ValueColumn(tuple(row[at] for row in read)) for at in range(3)))
