"""A topology while it is being built: nodes and stores as they are added, and Kafka's numbering."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ottla.streams.engine.stateless import Stateless, pass_on, with_key
from ottla.streams.errors import TopologyError
from ottla.streams.graph import (
    EARLIEST,
    LATEST,
    AnyNode,
    Partitioner,
    ProcessorNode,
    SinkNode,
    SourceNode,
    TimestampExtractor,
    TopicOf,
    Topology,
    assemble,
)
from ottla.streams.naming import Numbers, checked, nearest
from ottla.streams.serdes import Serde
from ottla.streams.stores import StoreMaker
from ottla.streams.values import Record


class Draft:
    """Grows by one node after the other; `finish` checks and freezes it."""

    def __init__(self, key: Serde, value: Serde) -> None:
        self.key, self.value = key, value
        self.numbers = Numbers()
        self._nodes: dict[str, AnyNode] = {}
        self._stores: dict[str, StoreMaker] = {}
        self._keyless: set[str] = set()

    def source(
        self,
        name: str,
        topics: Iterable[str],
        key: Serde | None,
        value: Serde | None,
        *,
        timestamp: TimestampExtractor | None = None,
        repartition: bool = False,
        global_store: bool = False,
        offset_reset: str = EARLIEST,
        pattern: re.Pattern[str] | None = None,
    ) -> str:
        """Add a source."""
        named = tuple(checked(topic) for topic in topics)
        if offset_reset not in (EARLIEST, LATEST):
            raise TopologyError(
                f"offset_reset={offset_reset!r} is not known{nearest(offset_reset, (EARLIEST, LATEST))}"
            )
        key, value = key or self.key, value or self.value
        return self._add(
            SourceNode(name, named, key, value, timestamp, repartition, global_store, offset_reset, pattern)
        )

    def processor(
        self, name: str, parents: Iterable[str], make: Callable[[], Any], *, stores: Iterable[str] = ()
    ) -> ProcessorNode:
        """Add a processor."""
        node = ProcessorNode(name, tuple(parents), make, list(stores))
        self._add(node)
        return node

    def stateless(self, name: str, parent: str, make: Callable[[Record], Iterable[Record]]) -> str:
        """Add a processor that looks at one record at a time."""
        return self.processor(name, (parent,), lambda: Stateless(make)).name

    def sink(
        self,
        name: str,
        parents: str | tuple[str, ...],
        topic: TopicOf,
        key: Serde | None,
        value: Serde | None,
        *,
        repartition: bool = False,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> str:
        """Add a sink."""
        if isinstance(topic, str):
            checked(topic)
        key, value = key or self.key, value or self.value
        named = (parents,) if isinstance(parents, str) else parents
        return self._add(SinkNode(name, named, topic, key, value, repartition, partitions, partitioner))

    def store(self, name: str, make: StoreMaker) -> str:
        """Add a store."""
        if name in self._stores:
            raise TopologyError(f"there are two stores named {name}: name one of them differently")
        self._stores[checked(name)] = make
        return name

    def connect(self, node: str, stores: Iterable[str]) -> None:
        """Let a processor use stores that another one keeps."""
        found = self._nodes[node]
        assert isinstance(found, ProcessorNode)
        found.stores.extend(store for store in stores if store not in found.stores)

    def shares(self, other: Draft) -> None:
        """Refuse to bring together what two builders make: the numbers of their nodes are the same ones."""
        if other is not self:
            raise TopologyError("both sides come from different builders: make them with one StreamsBuilder")

    def known_store(self, name: str) -> str:
        """The name, if a store has it."""
        if name not in self._stores:
            raise TopologyError(f"there is no store {name}{nearest(name, self._stores)}")
        return name

    def repartition(
        self,
        parent: str,
        prefix: str,
        key: Serde | None,
        value: Serde | None,
        *,
        partitions: int | None = None,
        numbered: bool = True,
        keyed: bool = False,
    ) -> str:
        """Send records through a topic of the topology's own, and return the node that reads it.

        With `keyed` those without a key are left out, unless a join behind it keeps them.
        """
        topic = prefix + "-repartition"
        sink, dropper, source = (
            self.numbers.number(kind) for kind in ("KSTREAM-SINK-", "KSTREAM-FILTER-", "KSTREAM-SOURCE-")
        )
        if not numbered:
            sink, dropper, source = topic + "-sink", topic + "-filter", topic + "-source"

        def with_key_unless_kept() -> Stateless:
            return pass_on() if self._leads_to_keyless(source) else with_key()

        parent = self.processor(dropper, (parent,), with_key_unless_kept if keyed else pass_on).name
        self.sink(sink, parent, topic, key, value, repartition=True, partitions=partitions)
        return self.source(source, (topic,), key, value, repartition=True)

    def keeps_keyless(self, node: str) -> None:
        """Note a join that keeps records without a key."""
        self._keyless.add(node)

    def _leads_to_keyless(self, node: str) -> bool:
        """True if a join that keeps records without a key is behind a node, through the topology's own topics too."""
        seen, waiting = set[str](), [node]
        while waiting:
            name = waiting.pop()
            if name in self._keyless:
                return True
            if name not in seen:
                seen.add(name)
                waiting += (behind.name for behind in self._nodes.values() if self._follows(behind, name))
        return False

    def _follows(self, behind: AnyNode, name: str) -> bool:
        sink = self._nodes[name]
        if isinstance(sink, SinkNode) and sink.repartition:
            return isinstance(behind, SourceNode) and sink.topic in behind.topics
        return name in behind.parents

    def finish(self) -> Topology:
        """The topology, checked."""
        return assemble(self._nodes, self._stores)

    def _add(self, node: AnyNode) -> str:
        if node.name in self._nodes:
            raise TopologyError(f"there are two nodes named {node.name}: name one of them differently")
        self._nodes[node.name] = node
        return node.name
