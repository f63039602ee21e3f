"""Offsets of source connectors, in Kafka's format: the key `["NAME",{partition}]`, the value an object, both JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ottla.jobs.json_records import compact_json

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]
Kept = tuple[Partition, Offset | None]


class OffsetStore(Protocol):
    """Keeps the offsets of all source connectors of a worker, or of a group of workers."""

    async def read(self, connector: str, partitions: Sequence[Partition]) -> list[Offset | None]:
        """The offset of each partition, None where none is kept."""

    async def write(self, connector: str, offsets: Sequence[Kept]) -> None:
        """Keep offsets; None removes one. On the disk, or acknowledged, once it returns."""

    async def all(self, connector: str) -> list[tuple[Partition, Offset]]:
        """All offsets of a connector."""


class OffsetRecord(NamedTuple):
    """The record that keeps one offset, and its place."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None


class TransactionalOffsets(OffsetStore, Protocol):
    """A store whose records a task may write itself, in one transaction with what it read."""

    def records(self, connector: str, offsets: Sequence[Kept]) -> list[OffsetRecord]:
        """The records that keep offsets."""

    async def committed(self, connector: str, offsets: Sequence[Kept]) -> None:
        """Learn that these offsets are kept by a transaction."""


def key_of(connector: str, partition: Partition) -> bytes:
    """The key of a partition's offset, in the bytes that Java writes."""
    return compact_json([connector, partition])


def identity(connector: str, partition: Partition) -> str:
    """Equal for equal partitions, whichever order their fields have."""
    return json.dumps([connector, partition], sort_keys=True)


def value_of(offset: Offset | None) -> bytes | None:
    """The value of a record of the offsets topic."""
    return None if offset is None else compact_json(offset)


class SourceOffsets:
    """The offsets as a map of exact keys: the bytes of a known key are kept, since compaction goes by bytes."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[bytes, str, Partition, Offset]] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in a record; ValueError for one that is no offset."""
        read = json.loads(key)
        if not (isinstance(read, list) and len(read) == 2 and isinstance(read[0], str) and isinstance(read[1], dict)):
            raise ValueError(f"the key {key[:80]!r} is not [NAME, {{partition}}]")
        found = None if value is None else json.loads(value)
        if found is None:
            self._kept.pop(identity(read[0], read[1]), None)
        elif isinstance(found, dict):
            self._kept[identity(read[0], read[1])] = (key, read[0], read[1], found)
        else:
            raise ValueError(f"the offset of {key[:80]!r} is not an object")

    def record(self, connector: str, partition: Partition, offset: Offset | None) -> tuple[bytes, bytes | None]:
        """The record that keeps an offset."""
        known = self._kept.get(identity(connector, partition))
        return known[0] if known else key_of(connector, partition), value_of(offset)

    def read(self, connector: str, partition: Partition) -> Offset | None:
        """The offset of a partition."""
        found = self._kept.get(identity(connector, partition))
        return None if found is None else found[3]

    def all(self, connector: str) -> list[tuple[Partition, Offset]]:
        """All offsets of a connector."""
        return [(partition, offset) for _, name, partition, offset in self._kept.values() if name == connector]

    def records(self) -> list[tuple[bytes, bytes]]:
        """All of them as records."""
        return [(key, value_of(offset) or b"") for key, _, _, offset in self._kept.values()]
