"""A topology as a value: nodes, the stores that they use, and the sub-topologies that they form.

Names are numbered as Kafka numbers them. Nothing runs here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.streams.errors import TopologyError
from ottla.streams.serdes import Serde
from ottla.streams.stores import StoreMaker
from ottla.streams.values import Place, Record

TimestampExtractor = Callable[[Record, int, Place], int]
"""The record as it was read, the stream time so far, its place; a negative result drops the record."""
EARLIEST, LATEST = "earliest", "latest"
TopicOf = str | Callable[[Record], str]
Partitioner = Callable[[Any, Any, int], int | Iterable[int] | None]
"""Key, value and the number of the topic's partitions, to the partition, to several, or to None for Kafka's choice."""


class Node(Protocol):
    """The three kinds of nodes have a name and parents."""

    @property
    def name(self) -> str: ...
    @property
    def parents(self) -> tuple[str, ...]: ...


@dataclass(slots=True)
class SourceNode:
    """Reads topics: with `repartition` one of the topology's own; with `global_store` every task reads all of it."""

    name: str
    topics: tuple[str, ...]
    key: Serde
    value: Serde
    timestamp: TimestampExtractor | None = None
    repartition: bool = False
    global_store: bool = False
    offset_reset: str = EARLIEST
    """The place where an application begins to read that has no offset of the topic yet."""
    pattern: re.Pattern[str] | None = None
    """Whole names of topics match; `topics` are those that are known to, none while the topology is being built."""

    @property
    def parents(self) -> tuple[str, ...]:
        return ()

    @property
    def shown_topics(self) -> tuple[str, ...]:
        """The topics as the user has named them: the pattern, if there is one."""
        return self.topics if self.pattern is None else (self.pattern.pattern,)

    def reads(self, topic: str) -> bool:
        """True if the topic is one of its own, or matches its pattern."""
        return topic in self.topics or (self.pattern is not None and self.pattern.fullmatch(topic) is not None)


@dataclass(slots=True)
class ProcessorNode:
    """Makes its processor anew for every task; `stores` grows while the topology is built."""

    name: str
    parents: tuple[str, ...]
    make: Callable[[], Any]
    stores: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SinkNode:
    """Writes to a topic, or to the topic that a function names for each record."""

    name: str
    parents: tuple[str, ...]
    topic: TopicOf
    key: Serde
    value: Serde
    repartition: bool = False
    partitions: int | None = None
    partitioner: Partitioner | None = None

    def chosen(self, record: Record, partitions: int) -> tuple[int | None, ...]:
        """The partitions that the partitioner chooses, each once, in order; (None,) stands for Kafka's choice.

        ValueError for a partition that a topic with so many does not have.
        """
        assert self.partitioner is not None
        wanted = self.partitioner(record.key, record.value, partitions)
        if wanted is None:
            return (None,)
        found = (wanted,) if isinstance(wanted, int) else tuple(sorted(set(wanted)))
        for each in found:
            if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each < partitions:
                raise ValueError(f"the partitioner chose {each!r}: the topic has the partitions 0 to {partitions - 1}")
        return found


AnyNode = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class SubTopology:
    """Nodes that run together on one partition, in the order in which they were added."""

    number: int
    nodes: tuple[str, ...]
    is_global: bool


@dataclass(frozen=True, slots=True)
class Topology:
    """The result of a builder: checked, and not to be changed."""

    nodes: Mapping[str, AnyNode]
    stores: Mapping[str, StoreMaker]
    sub_topologies: tuple[SubTopology, ...]

    def children(self, name: str) -> Iterator[AnyNode]:
        """The nodes behind a node, in the order in which they were added."""
        return (node for node in self.nodes.values() if name in node.parents)

    def sources(self) -> Iterator[SourceNode]:
        """Every source, those of repartition topics too."""
        return (node for node in self.nodes.values() if isinstance(node, SourceNode))

    def topics(self) -> tuple[str, ...]:
        """The topics that are read from outside, in order; of a pattern those that are known to match it."""
        return tuple(topic for source in self.sources() if not source.repartition for topic in source.topics)

    def patterns(self) -> tuple[str, ...]:
        """The patterns of topics that are read."""
        return tuple(source.pattern.pattern for source in self.sources() if source.pattern is not None)

    def latest(self) -> tuple[str, ...]:
        """The topics that a new application reads from their ends on."""
        return tuple(topic for source in self.sources() if source.offset_reset == LATEST for topic in source.topics)

    def describe(self) -> str:
        """The topology as text, as Kafka's `Topology.describe()` prints it."""
        from ottla.streams.describe import described

        return described(self)


def assemble(nodes: Mapping[str, AnyNode], stores: Mapping[str, StoreMaker]) -> Topology:
    """A checked topology; TopologyError says what does not fit."""
    _check_topics([node for node in nodes.values() if isinstance(node, SourceNode)])
    for node in nodes.values():
        for parent in node.parents:
            if parent not in nodes:
                raise TopologyError(f"{node.name} follows {parent}, which is no node of this topology")
        for store in node.stores if isinstance(node, ProcessorNode) else ():
            if store not in stores:
                raise TopologyError(f"{node.name} uses the store {store}; add it by add_store() first")
    used = {store for node in nodes.values() if isinstance(node, ProcessorNode) for store in node.stores}
    for store in stores:
        if store not in used:
            raise TopologyError(f"no processor uses the store {store}: name it in stores=")
    return Topology(dict(nodes), dict(stores), tuple(_sub_topologies(nodes)))


def _check_topics(sources: Sequence[SourceNode]) -> None:
    """Refuse a topic that two sources would read; of two patterns it is known once a topic matches both."""
    if not sources:
        raise TopologyError("the topology reads no topic: begin with stream(), table() or global_table()")
    seen: dict[str, str] = {}
    for node in sources:
        for topic in node.topics:
            if topic in seen:
                raise TopologyError(f"the topic {topic} is read twice ({seen[topic]}, {node.name}): read it once")
            seen[topic] = node.name
    by_text: dict[str, str] = {}
    for node, text in ((node, node.pattern.pattern) for node in sources if node.pattern is not None):
        for topic, reader in seen.items():
            if node.reads(topic):
                raise TopologyError(
                    f"the topic {topic} is read twice ({reader}, and {node.name} by the pattern {text}): let the "
                    "pattern leave it out"
                )
        if text in by_text:
            raise TopologyError(f"the pattern {text} is read twice ({by_text[text]}, {node.name}): read it once")
        by_text[text] = node.name


def _sub_topologies(nodes: Mapping[str, AnyNode]) -> Iterator[SubTopology]:
    """Groups of nodes that edges or stores connect, numbered by the order of their first nodes as in Kafka."""
    leader = {name: name for name in nodes}

    def root(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    first_user: dict[str, str] = {}
    everywhere = global_stores(nodes)
    for node in nodes.values():
        for parent in node.parents:
            leader[root(node.name)] = root(parent)
        for store in node.stores if isinstance(node, ProcessorNode) else ():
            if store not in everywhere:
                leader[root(node.name)] = root(first_user.setdefault(store, node.name))
    groups: dict[str, list[str]] = {}
    for name in nodes:
        groups.setdefault(root(name), []).append(name)
    for number, members in enumerate(groups.values()):
        sources = (node for name in members if isinstance(node := nodes[name], SourceNode))
        yield SubTopology(number, tuple(members), any(source.global_store for source in sources))


def global_sources(nodes: Mapping[str, AnyNode]) -> dict[str, str]:
    """The topic behind each store of a global table."""
    topics = {
        name: node.topics[0] for name, node in nodes.items() if isinstance(node, SourceNode) and node.global_store
    }
    return {
        store: topics[parent]
        for node in nodes.values()
        if isinstance(node, ProcessorNode)
        for parent in node.parents
        if parent in topics
        for store in node.stores
    }


def global_stores(nodes: Mapping[str, AnyNode]) -> set[str]:
    """Stores behind global sources: using one does not connect a node with its source."""
    return set(global_sources(nodes))
