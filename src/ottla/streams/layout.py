"""Topics of an application: how many tasks it has, and what its own topics are named and how many partitions they have.

Pure: the caller says how many partitions the topics have that the topology reads from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.streams.errors import TopologyError
from ottla.streams.graph import ProcessorNode, SinkNode, SourceNode, SubTopology, Topology, global_stores

TIMES = "ottla.times"
"""Stands for a store's name in the changelog of the times that tasks have seen."""


@dataclass(frozen=True, slots=True)
class TaskLayout:
    """`tasks`: the partitions of each sub-topology. `own`: topics to make, with their partitions."""

    application_id: str
    tasks: Mapping[int, int]
    part_of: Mapping[str, int]
    """The sub-topology that reads a topic, by the topic's name in the topology."""
    repartitions: Mapping[str, int]
    changelogs: Mapping[str, int]

    def topic(self, name: str) -> str:
        """The broker's name of a topic of the topology."""
        return f"{self.application_id}-{name}" if name in self.repartitions else name

    def changelog(self, store: str) -> str:
        """The changelog's name of a store."""
        return f"{self.application_id}-{store}-changelog"

    def read(self) -> dict[str, str]:
        """The topics to read: the broker's name to the topology's."""
        return {self.topic(name): name for name in self.part_of}


def layout(topology: Topology, application_id: str, counts: Mapping[str, int]) -> TaskLayout:
    """The layout; TopologyError says what cannot be run."""
    if TIMES in topology.stores:
        raise TopologyError(f"the store name {TIMES} is taken by the runner: name the store differently")
    tasks = _tasks(topology, counts)
    parts = [part for part in topology.sub_topologies if not part.is_global]
    part_of = {topic: part.number for part in parts for topic in _reads(topology, part)}
    changelogs = {TIMES: max(tasks.values())}
    for part in parts:
        for name in part.nodes:
            node = topology.nodes[name]
            stores = node.stores if isinstance(node, ProcessorNode) else ()
            kept = [store for store in stores if store not in global_stores(topology.nodes)]
            changelogs.update(dict.fromkeys(kept, tasks[part.number]))
    own = {node.topic: tasks[part_of[node.topic]] for node in _repartition_sinks(topology)}  # type: ignore[index]
    return TaskLayout(application_id, tasks, part_of, own, changelogs)  # type: ignore[arg-type]


def _tasks(topology: Topology, counts: Mapping[str, int]) -> dict[int, int]:
    """The partitions that each sub-topology has, from its topics or from those who write to them."""
    explicit = {node.topic: node.partitions for node in _repartition_sinks(topology) if node.partitions}
    writers: dict[str, set[int]] = {}
    for part in topology.sub_topologies:
        for node in (topology.nodes[name] for name in part.nodes):
            if isinstance(node, SinkNode) and node.repartition:
                writers.setdefault(str(node.topic), set()).add(part.number)
    known: dict[int, int] = {}
    waiting = [part for part in topology.sub_topologies if not part.is_global]
    if not waiting:
        raise TopologyError("the topology has global tables alone: read a stream or a table too")
    while waiting:
        still = []
        for part in waiting:
            topics = _reads(topology, part)
            given = {topic: counts.get(topic) or explicit.get(topic) for topic in topics}
            sure = {topic: count for topic, count in given.items() if count}
            if len(set(sure.values())) > 1:
                shown = ", ".join(f"{topic} has {count}" for topic, count in sorted(sure.items()))
                raise TopologyError(
                    f"topics that are processed together have different numbers of partitions ({shown}): give them "
                    "the same number, or send one through repartition()"
                )
            before = {writer for topic in topics for writer in writers.get(topic, ())}
            if sure:
                known[part.number] = next(iter(sure.values()))
            elif before <= known.keys():
                known[part.number] = max(known[writer] for writer in before)
            else:
                still.append(part)
        if len(still) == len(waiting):
            topics = sorted(topic for part in still for topic in _reads(topology, part))
            raise TopologyError(f"nothing says how many partitions {', '.join(topics)} have: name partitions=")
        waiting = still
    return known


def _reads(topology: Topology, part: SubTopology) -> list[str]:
    nodes = (topology.nodes[name] for name in part.nodes)
    return [topic for node in nodes if isinstance(node, SourceNode) for topic in node.topics]


def _repartition_sinks(topology: Topology) -> list[SinkNode]:
    return [node for node in topology.nodes.values() if isinstance(node, SinkNode) and node.repartition]
