"""Topologies over topics of any names, their inputs, and the results that the engine gives for given batches."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.streams.topologies import TOPOLOGIES

from ottla.streams import TEXT, StreamsBuilder, Topology, TopologyTest
from ottla.streams.graph import SinkNode
from ottla.streams.values import Input

READ = "abc"


class Renamed(StreamsBuilder):
    """Builds over topics of other names."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__(key=TEXT, value=TEXT)
        self._names = names

    def stream(self, topic: Any, **more: Any) -> Any:
        return super().stream(self._names[topic], **more)

    def table(self, topic: str, **more: Any) -> Any:
        return super().table(self._names[topic], **more)

    def global_table(self, topic: str, **more: Any) -> Any:
        return super().global_table(self._names[topic], **more)

    def build(self) -> Topology:
        topology = super().build()
        for node in topology.nodes.values():
            if isinstance(node, SinkNode) and not node.repartition and node.topic in self._names:
                node.topic = self._names[str(node.topic)]
        return topology


def built_over(name: str, names: dict[str, str]) -> Topology:
    """One of the topologies of tests, over topics of these names."""
    builder = Renamed(names)
    TOPOLOGIES[name](builder)
    return builder.build()


def noted_ends(checkpoint: Path) -> list[dict[str, dict[str, int]]]:
    """The ends of the batches that Spark has noted, by topic and partition."""
    files = [path for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal()]
    return [json.loads(path.read_text().splitlines()[2]) for path in sorted(files, key=lambda path: int(path.name))]


def cuts_of(checkpoint: Path, names: dict[str, str]) -> list[dict[str, int]]:
    """The ends of the batches that Spark has noted, by the names of the topics in the topology."""
    ends = noted_ends(checkpoint)
    return [{name: end.get(topic, {}).get("0", 0) for name, topic in names.items()} for end in ends]


def batches_of(checkpoint: Path, records: dict[tuple[str, int], list[Input]]) -> Iterator[list[Input]]:
    """The records of each batch that Spark has noted, of those that lie in each topic and partition."""
    begins = dict.fromkeys(records, 0)
    for ends in noted_ends(checkpoint):
        taken: list[Input] = []
        for (topic, partition), there in records.items():
            end = ends.get(topic, {}).get(str(partition), 0)
            taken += there[begins[topic, partition] : end]
            begins[topic, partition] = max(begins[topic, partition], end)
        yield taken


def expected(topology: Topology, names: dict[str, str], rows: list[Any], cuts: list[dict[str, int]]) -> list[Any]:
    """The records that the engine writes for these batches, where the earliest first record of a topic is next."""
    test, queues = TopologyTest(topology), {name: [row for row in rows if row[0] == name] for name in READ}
    at = dict.fromkeys(READ, 0)
    for ends in cuts:
        while heads := [(queues[n][at[n]][3], names[n], n) for n in READ if at[n] < ends[n]]:
            name = min(heads)[2]
            _, key, value, time = queues[name][at[name]]
            test.pipe_input(names[name], key, value, time)
            at[name] += 1
    return [(record.key, record.value, record.timestamp) for record in test.read_outputs(names["out"])]


def by_key(records: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for key, *rest in records:
        found.setdefault(key, []).append(tuple(rest))
    return found


def rows_of(seed: int, topics: str, count: int) -> list[Any]:
    draw = random.Random(seed)
    return [
        (
            draw.choice(topics),
            draw.choice("kj"),
            draw.choice(["1", "2", "12", None]),
            max(0, at // 2 + draw.randint(-4, 4)),
        )
        for at in range(count)
    ]
