"""Says what changed between two versions of a topology, and whether the state of the older one still fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ottla.streams.graph import ProcessorNode, SinkNode, Topology
from ottla.streams.stores import (
    JoinStore,
    KeyValueStore,
    OrderedStore,
    SessionStore,
    Store,
    VersionedStore,
    WindowStore,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """`breaking` sentences call for a new application id or a reset; `harmless` ones do not."""

    breaking: tuple[str, ...]
    harmless: tuple[str, ...]

    @property
    def needs_new_application_id(self) -> bool:
        """True if the older version's state or repartition topics do not fit the newer version."""
        return bool(self.breaking)


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a topology that its state depends on, in words: they can be written down and compared later."""

    stores: Mapping[str, str]
    repartitions: Mapping[str, str]
    numbers: Mapping[str, int]
    """The sub-topology of each store."""
    nodes: Mapping[str, bool]
    """Each node, and whether it has state."""
    topics: tuple[str, ...]
    patterns: tuple[str, ...] = ()
    """Patterns of topics; those that matched are among the topics."""

    def to_json(self) -> dict[str, Any]:
        """The shape as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Shape:
        """The shape that `to_json` wrote."""
        return cls(**{**written, **{name: tuple(written.get(name, ())) for name in ("topics", "patterns")}})


def shape(topology: Topology) -> Shape:
    """The shape of a topology."""
    nodes = {name: _has_state(topology, name) for name in topology.nodes}
    return Shape(
        _described(topology), _repartitions(topology), _numbers(topology), nodes, topology.topics(), topology.patterns()
    )


def difference(older: Topology | Shape, newer: Topology | Shape) -> Difference:
    """Compare two versions by the names of stores and topics, which is how state is found again."""
    was, now = (one if isinstance(one, Shape) else shape(one) for one in (older, newer))
    breaking = [*_stores(was.stores, now.stores), *_repartitioned(was.repartitions, now.repartitions)]
    return Difference((*breaking, *_sub_topologies(was.numbers, now.numbers)), tuple(_harmless(was, now)))


def _stores(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in was:
        if name not in now:
            yield f"the store {name} is gone: its state would be lost{_advice(name)}"
        elif was[name] != now[name]:
            yield f"the store {name} was {was[name]} and is {now[name]}"
    for name in now:
        if name not in was:
            yield f"the store {name} is new: it would begin empty in the middle of its input{_advice(name)}"


def _repartitioned(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in was:
        if name not in now:
            yield f"the repartition topic {name} is gone: records that wait in it would be lost{_advice(name)}"
        elif was[name] != now[name]:
            yield f"the repartition topic {name} held {was[name]} and holds {now[name]}"


def _sub_topologies(was: Mapping[str, int], now: Mapping[str, int]) -> Iterator[str]:
    """State lies by sub-topology: a store that is found under another number is not found."""
    for store in was:
        if store in now and was[store] != now[store]:
            moved = f"moved from sub-topology {was[store]} to {now[store]}"
            yield f"the store {store} {moved}: its state would not be found"


def _harmless(was: Shape, now: Shape) -> Iterator[str]:
    for name, has_state in now.nodes.items():
        if name not in was.nodes and not has_state:
            yield f"the node {name} is new"
    for name, has_state in was.nodes.items():
        if name not in now.nodes and not has_state:
            yield f"the node {name} is gone"
    for topic in now.topics:
        if topic not in was.topics:
            yield f"the topic {topic} is read now"
    for topic in was.topics:
        if topic not in now.topics and not any(re.fullmatch(pattern, topic) for pattern in now.patterns):
            yield f"the topic {topic} is read no more"
    for pattern in now.patterns:
        if pattern not in was.patterns:
            yield f"the topics that match {pattern} are read now"
    for pattern in was.patterns:
        if pattern not in now.patterns:
            yield f"the pattern {pattern} is gone: topics that it alone matched are read no more"


def _has_state(topology: Topology, name: str) -> bool:
    node = topology.nodes[name]
    return bool(node.stores) if isinstance(node, ProcessorNode) else node.repartition


def _described(topology: Topology) -> dict[str, str]:
    return {name: _described_store(make()) for name, make in topology.stores.items()}


def _described_store(store: Store) -> str:
    """The kind of a store with all that its state depends on."""
    if isinstance(store, OrderedStore):
        return f"a buffer of {store.holds}"
    serdes = f"of {store.key.name} to {store.value.name}"
    if isinstance(store, KeyValueStore):
        return f"a key-value store {serdes}"
    if isinstance(store, VersionedStore):
        return f"a versioned store {serdes}, with a history of {store.retention_ms} ms"
    if isinstance(store, JoinStore):
        return f"a join's store {serdes}, kept for {store.retention_ms} ms"
    if isinstance(store, SessionStore):
        return f"a session store {serdes}, kept for {store.retention_ms} ms"
    assert isinstance(store, WindowStore)
    return f"a window store {serdes}, of {store.size_ms} ms kept for {store.retention_ms} ms"


def _repartitions(topology: Topology) -> dict[str, str]:
    sinks = (node for node in topology.nodes.values() if isinstance(node, SinkNode) and node.repartition)
    return {
        str(sink.topic): f"{sink.key.name} to {sink.value.name}"
        + (f" in {sink.partitions} partitions" if sink.partitions else "")
        for sink in sinks
    }


def _numbers(topology: Topology) -> Mapping[str, int]:
    return {
        store: part.number
        for part in topology.sub_topologies
        for name in part.nodes
        if isinstance(node := topology.nodes[name], ProcessorNode)
        for store in node.stores
    }


def _advice(name: str) -> str:
    """Numbers move when an operation is added before; names of the user's own do not."""
    stem = name.removesuffix("-repartition").removesuffix("-topic").removesuffix("-store").removesuffix("-Buffer")
    numbered = stem[-10:].isdigit()
    return "; its name is a number that moved: name it by store= or name=" if numbered else ""
