"""Topologies as text, byte for byte as Kafka's `Topology.describe()` prints them, so that its viewers read ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ottla.streams.graph import AnyNode, SinkNode, SourceNode, SubTopology, Topology

Entry = TypeVar("Entry")


def described(topology: Topology) -> str:
    """The whole text."""
    return "Topologies:\n " + "".join(f"  {_sub_topology(topology, part)}" for part in topology.sub_topologies)


class Placed:
    """A node with how many nodes hang below it, by every way, and its neighbours in the order of their numbers then."""

    def __init__(self, node: AnyNode) -> None:
        self.node, self.size = node, 1
        self.before: list[Placed] = []
        self.behind: list[Placed] = []

    def rank(self) -> tuple[int, str]:
        """Larger ones come first, then names decide."""
        return -self.size, self.node.name

    def grow(self, by: int) -> None:
        """Count nodes that were found below this one, here and above."""
        self.size += by
        for placed in self.before:
            placed.grow(by)


def _sub_topology(topology: Topology, part: SubTopology) -> str:
    placed = _placed(topology, part)
    lines = [f"    {_node(one)}\n" for one in sorted(placed, key=Placed.rank)]
    if part.is_global:
        return f"Sub-topology: {part.number} for global store (will not generate tasks)\n" + "".join(lines)
    return f"Sub-topology: {part.number}\n" + "".join(lines) + "\n"


def _placed(topology: Topology, part: SubTopology) -> list[Placed]:
    """The nodes connected, one after the other as Java's HashMap gives them: Kafka's order depends on it."""
    ordered = java_order({name: Placed(topology.nodes[name]) for name in part.nodes})
    for placed in ordered.values():
        for parent in placed.node.parents:
            _insert(placed.before, ordered[parent])
            _insert(ordered[parent].behind, placed)
            ordered[parent].grow(placed.size)
    return list(ordered.values())


def _insert(among: list[Placed], one: Placed) -> None:
    at = next((at for at, other in enumerate(among) if one.rank() < other.rank()), len(among))
    among.insert(at, one)


def _node(placed: Placed) -> str:
    node = placed.node
    successors, predecessors = _names(placed.behind), _names(placed.before)
    if isinstance(node, SourceNode):
        topics = _java_set(node.topics) if node.pattern is None else node.pattern.pattern
        return f"Source: {node.name} (topics: {topics})\n      --> {successors}"
    if isinstance(node, SinkNode):
        topic = f"topic: {node.topic}" if isinstance(node.topic, str) else f"extractor class: {_function(node.topic)}"
        return f"Sink: {node.name} ({topic})\n      <-- {predecessors}"
    return (
        f"Processor: {node.name} (stores: {_java_set(node.stores)})\n      --> {successors}\n      <-- {predecessors}"
    )


def _names(placed: list[Placed]) -> str:
    return ", ".join(one.node.name for one in placed) or "none"


def _function(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _java_set(names: Iterable[str]) -> str:
    """Names as a Java HashSet prints them."""
    return "[" + ", ".join(java_order(dict.fromkeys(names))) + "]"


def java_order(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Entries in the order in which a Java HashMap gives them."""
    size = 16
    while size * 3 // 4 < len(entries):
        size *= 2
    return dict(sorted(entries.items(), key=lambda entry: java_bucket(entry[0], size)))


def java_bucket(text: str, size: int) -> int:
    """The bucket of a Java HashMap of `size` buckets that a string falls into."""
    raw, value = text.encode("utf-16-be"), 0
    for at in range(0, len(raw), 2):
        value = (value * 31 + (raw[at] << 8 | raw[at + 1])) & 0xFFFFFFFF
    return (value ^ value >> 16) & (size - 1)
