"""Topics as groups see them: their names, ids and numbers of partitions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol


class TopicShape(NamedTuple):
    """One topic that exists."""

    topic_id: bytes
    name: str
    partitions: int


class Topics(Protocol):
    """The topics of the cluster as this broker knows them now."""

    @property
    def version(self) -> int:
        """Grows with every change; while it stays the same, all other answers do."""

    def by_name(self, name: str) -> TopicShape | None: ...

    def by_id(self, topic_id: bytes) -> TopicShape | None: ...

    def names(self) -> Sequence[str]:
        """All names, sorted."""


class NoTopics:
    """A cluster without topics."""

    version = 0

    def by_name(self, name: str) -> TopicShape | None:
        return None

    def by_id(self, topic_id: bytes) -> TopicShape | None:
        return None

    def names(self) -> Sequence[str]:
        return ()


def shapes_of(names: Iterable[str], topics: Topics) -> list[TopicShape]:
    """The ids of those topics that exist, by name."""
    found = (topics.by_name(name) for name in sorted(names))
    return [shape for shape in found if shape is not None]


def metadata_hash(shapes: Sequence[TopicShape]) -> int:
    """A hash of the shapes of a group's topics, sorted by name: if it changes, an assignment is out of date.

    Kafka takes XXH3 of its own form. The number is compared only with one that the coordinator wrote before: after a
    change from one broker to the other, a group gets a new assignment once.
    """
    if not shapes:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for shape in shapes:
        name = shape.name.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b%b%d;" % (len(name), name, shape.topic_id, shape.partitions))
    return int.from_bytes(digest.digest(), "big", signed=True)
