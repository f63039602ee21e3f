"""Topics by patterns: the source that reads a topic, and the topics that the patterns of a topology match now.

Pure: the caller says which topics there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ottla.streams.errors import TopologyError
from ottla.streams.graph import SourceNode, Topology
from ottla.streams.naming import nearest


class _Topic(Protocol):
    """A topic as metadata tells of it."""

    @property
    def is_internal(self) -> bool: ...


class SourceOf(dict[str, SourceNode]):
    """The source of each topic; those of topics that match a pattern are noted when they are first asked for."""

    def __init__(self, sources: Iterable[SourceNode]) -> None:
        super().__init__()
        self._by_pattern: list[SourceNode] = []
        for source in sources:
            self.update(dict.fromkeys(source.topics, source))
            if source.pattern is not None:
                self._by_pattern.append(source)

    def __missing__(self, topic: str) -> SourceNode:
        if (source := _reader(self._by_pattern, topic)) is not None:
            self[topic] = source
            return source
        known = [*self, *(shown for source in self._by_pattern for shown in source.shown_topics)]
        raise TopologyError(f"the topology does not read the topic {topic}{nearest(topic, known)}")

    def find(self, topic: str) -> SourceNode:
        """The source of a topic; TopologyError for one that is not read."""
        return self[topic]

    def reads(self, topic: str) -> bool:
        """True if there is a source for the topic."""
        return topic in self or any(source.reads(topic) for source in self._by_pattern)


def bound(topology: Topology, known: Mapping[str, _Topic]) -> Topology:
    """The topology with the topics of a cluster that its patterns match, which may be more later.

    Internal topics, such as `__consumer_offsets`, match no pattern. TopologyError where nothing matches, or a topic
    matches two patterns.
    """
    matched: dict[str, list[str]] = {source.name: [] for source in topology.sources() if source.pattern is not None}
    by_pattern = [source for source in topology.sources() if source.name in matched]
    for topic in sorted(name for name, view in known.items() if not view.is_internal):
        if (reader := _reader(by_pattern, topic)) is not None:
            matched[reader.name].append(topic)
    nodes = dict(topology.nodes)
    for source in by_pattern:
        if not matched[source.name]:
            raise TopologyError(
                f"no topic matches {source.shown_topics[0]} ({source.name}): make the first one, so that the number of "
                "its partitions is known"
            )
        nodes[source.name] = replace(source, topics=tuple(matched[source.name]))
    return replace(topology, nodes=nodes)


def subscription(topology: Topology) -> str | None:
    """One pattern for the topics that a topology with patterns reads from outside; None for one without."""
    if not topology.patterns():
        return None
    sources = [source for source in topology.sources() if not source.repartition and not source.global_store]
    named = (re.escape(topic) for source in sources if source.pattern is None for topic in source.topics)
    return "|".join(f"(?:{each})" for each in (*named, *topology.patterns()))


def _reader(by_pattern: Sequence[SourceNode], topic: str) -> SourceNode | None:
    """The source whose pattern a topic matches, or None; TopologyError where it matches two."""
    found = [source for source in by_pattern if source.reads(topic)]
    if len(found) > 1:
        both = " and ".join(shown for source in found[:2] for shown in source.shown_topics)
        raise TopologyError(f"the topic {topic} matches both {both}: let one of the patterns leave it out")
    return found[0] if found else None
