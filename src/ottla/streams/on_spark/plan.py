"""The levels of a topology: shuffles of one micro-batch, and the tasks that run behind each of them.

Pure. A record of a topic is handled at the topic's level. A sub-topology handles all its topics at one level, in the
order of their times, but for those that send records to one another in a circle, as joins by foreign key do.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ottla.client.model import EARLIEST, LATEST
from ottla.streams.engine.stateless import Branches, Stateless
from ottla.streams.errors import TopologyError
from ottla.streams.graph import ProcessorNode, SinkNode, SourceNode, Topology
from ottla.streams.layout import TaskLayout

DONE = 1_000
"""Stands for the level of records that are results."""
Bucket = tuple[int, int]
"""A sub-topology and a partition: a task, as in Kafka."""


@dataclass(frozen=True, slots=True)
class Level:
    """`buckets`: the tasks by the numbers of their Spark partitions; `first` is the number of each sub-topology's."""

    topics: tuple[str, ...]
    buckets: tuple[Bucket, ...]
    first: Mapping[int, int]
    keeps_nothing: bool
    """True if no task here has state or looks at times: no shuffle is needed, and no state file."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`levels` in the order in which they run; `level_of`, `part_of` and `partitions` by a topic's name."""

    levels: tuple[Level, ...]
    level_of: Mapping[str, int]
    part_of: Mapping[str, int]
    partitions: Mapping[str, int]

    def first_level(self, part: int) -> int:
        """The level at which a sub-topology runs first in each batch."""
        return min(at for at, level in enumerate(self.levels) if part in level.first)

    def before(self, part: int, batch: int, level: int) -> tuple[int, int] | None:
        """The batch and the level at which a sub-topology ran last before this one."""
        mine = [at for at, each in enumerate(self.levels) if part in each.first]
        earlier = [at for at in mine if at < level]
        if earlier:
            return batch, earlier[-1]
        return (batch - 1, mine[-1]) if batch else None


def planned(topology: Topology, layout: TaskLayout) -> Plan:
    """The plan of a topology whose tasks and topics are known."""
    level_of = _levels(topology, layout)
    partitions = {topic: layout.tasks[part] for topic, part in layout.part_of.items()}
    levels = []
    for level in sorted(set(level_of.values())):
        topics = tuple(topic for topic in layout.part_of if level_of[topic] == level)
        first: dict[int, int] = {}
        buckets: list[Bucket] = []
        for part in sorted({layout.part_of[topic] for topic in topics}):
            first[part] = len(buckets)
            buckets += [(part, partition) for partition in range(layout.tasks[part])]
        levels.append(Level(topics, tuple(buckets), first, all(_keeps_nothing(topology, part) for part in first)))
    numbers = {level: at for at, level in enumerate(sorted(set(level_of.values())))}
    return Plan(tuple(levels), {t: numbers[at] for t, at in level_of.items()}, layout.part_of, partitions)


def starting_offsets(
    plan: Plan, topics: Iterable[str], latest: Collection[str], noted: Mapping[str, Mapping[str, int]] | None = None
) -> str:
    """The beginning of a run without a checkpoint, as the source's option `startingOffsets`.

    Some topics begin at the end, and those of a reset at the offsets that it has noted, by topic and partition.
    """
    offsets = {
        topic: dict.fromkeys(map(str, range(plan.partitions[topic])), LATEST if topic in latest else EARLIEST)
        for topic in topics
    }
    return json.dumps({topic: (noted or {}).get(topic, each) for topic, each in offsets.items()})


def _levels(topology: Topology, layout: TaskLayout) -> dict[str, int]:
    """The level of each topic: behind all that is written to it, and the same for a sub-topology where that can be."""
    sinks = [node for node in topology.nodes.values() if isinstance(node, SinkNode) and node.repartition]
    above = {
        node.name: {topic for source in _sources_above(topology, node) for topic in source.topics} for node in sinks
    }
    writers: dict[str, set[str]] = {topic: set() for topic in layout.part_of}
    for node in sinks:
        writers[str(node.topic)] |= above[node.name] & layout.part_of.keys()
    circles = _in_circles(layout, writers)
    level_of = dict.fromkeys(layout.part_of, 0)
    for _ in range(len(level_of) ** 2 + 1):
        before = dict(level_of)
        for topic, sources in writers.items():
            level_of[topic] = max([level_of[topic], *(level_of[source] + 1 for source in sources)])
        for part in set(layout.part_of.values()) - circles:
            mine = [topic for topic, owner in layout.part_of.items() if owner == part]
            level_of.update(dict.fromkeys(mine, max(level_of[topic] for topic in mine)))
        if level_of == before:
            return level_of
    raise TopologyError("a repartition topic leads back to itself: send what goes around through a topic of your own")


def _in_circles(layout: TaskLayout, writers: Mapping[str, set[str]]) -> set[int]:
    """Sub-topologies whose records may come back to them."""
    to: dict[int, set[int]] = {part: set() for part in layout.part_of.values()}
    for topic, sources in writers.items():
        for source in sources:
            to[layout.part_of[source]].add(layout.part_of[topic])
    circles = set()
    for part, behind in to.items():
        seen, waiting = set[int](), list(behind)
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting += to[each]
        if part in seen:
            circles.add(part)
    return circles


def _sources_above(topology: Topology, node: SinkNode) -> Iterator[SourceNode]:
    seen, waiting = set[str](), list(node.parents)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        found = topology.nodes[name]
        if isinstance(found, SourceNode):
            yield found
        waiting += found.parents


def _keeps_nothing(topology: Topology, part: int) -> bool:
    """True if a sub-topology maps each record by itself, so that any task may handle it."""
    for name in next(each for each in topology.sub_topologies if each.number == part).nodes:
        node = topology.nodes[name]
        if isinstance(node, ProcessorNode) and (node.stores or not isinstance(node.make(), Stateless | Branches)):
            return False
        if isinstance(node, SourceNode) and node.timestamp is not None:
            return False
    return True
