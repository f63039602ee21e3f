"""Runs a topology in a user's unit tests, without a broker and without Spark, as Kafka's TopologyTestDriver does."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from ottla.streams.engine.task import Input, Output, Task
from ottla.streams.errors import TopologyError
from ottla.streams.graph import SinkNode, Topology
from ottla.streams.naming import nearest
from ottla.streams.serdes import Serde
from ottla.streams.values import Headers, Place, Record


@dataclass(frozen=True, slots=True)
class TestRecord:
    """A record that the topology wrote to a topic."""

    __test__ = False

    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()


class TopologyTest:
    """Takes records one by one; each is processed to its end before the call returns.

    test = TopologyTest(topology)
    test.pipe_input("lines", None, "so it is", timestamp=0)
    assert test.read_records("counts") == [("so", 1), ("it", 1), ("is", 1)]
    """

    __test__ = False

    def __init__(self, topology: Topology, *, wall_clock_ms: int = 0) -> None:
        self._topology = topology
        self._task = Task(topology)
        self._task.advance(wall_clock_ms)
        self._batch = 0
        self._offsets: dict[str, int] = {}
        self._outputs: dict[str, deque[Output]] = {}
        self.dropped: dict[str, int] = {}
        """The number of records that each node has left out: late ones, those without a key."""
        self._take()

    def pipe_input(self, topic: str, key: Any, value: Any, timestamp: int | None = None, headers: Headers = ()) -> None:
        """Write a record to a topic that the topology reads; without a timestamp it has the time of day of the test."""
        source = next((source for source in self._topology.sources() if topic in source.topics), None)
        if source is None:
            topics = self._topology.topics()
            raise TopologyError(f"the topology does not read the topic {topic}{nearest(topic, topics)}")
        place = Place(topic, 0, self._offsets.get(topic, 0))
        self._offsets[topic] = place.offset + 1
        time = self._task.wall_clock_ms if timestamp is None else timestamp
        self._task.feed(Input(place, source.key.to_bytes(key), source.value.to_bytes(value), time, headers))
        self._take()

    def read_output(self, topic: str, *, key: Serde | None = None, value: Serde | None = None) -> TestRecord | None:
        """The next record of a topic that the topology wrote, or None; serdes only for topics that a function names."""
        queue = self._outputs.get(topic)
        if not queue:
            self._check_topic(topic)
            return None
        output = queue.popleft()
        sink = self._sink(topic)
        if sink is None and (key is None or value is None):
            raise TopologyError(f"a function names the topic {topic}: say how to read it by key=… and value=…")
        read_key, read_value = key or (sink and sink.key), value or (sink and sink.value)
        assert read_key and read_value
        made = Record(read_key.from_bytes(output.key), read_value.from_bytes(output.value), output.timestamp)
        return TestRecord(made.key, made.value, made.timestamp, output.headers)

    def read_outputs(self, topic: str, *, key: Serde | None = None, value: Serde | None = None) -> list[TestRecord]:
        """All records of a topic that were not read yet."""
        records = []
        while (record := self.read_output(topic, key=key, value=value)) is not None:
            records.append(record)
        return records

    def read_records(self, topic: str) -> list[tuple[Any, Any]]:
        """Key and value of all records of a topic that were not read yet."""
        return [(record.key, record.value) for record in self.read_outputs(topic)]

    def store(self, name: str) -> Any:
        """A store of the topology: `get(key)` gives value and timestamp, `all()` everything."""
        if name not in self._task.stores:
            raise TopologyError(f"the topology has no store {name}{nearest(name, self._task.stores)}")
        return self._task.stores[name]

    def rows(self, name: str) -> dict[Any, Any]:
        """Every key of a store with its value."""
        return {key: stamped.value for key, stamped in self.store(name).all()}

    def advance_wall_clock(self, by_ms: int) -> None:
        """Let time pass: runs what processors scheduled by the time of day."""
        self._task.advance(self._task.wall_clock_ms + by_ms)
        self._take()

    def _take(self) -> None:
        results = self._task.take(self._batch)
        self._batch += 1
        for output in results.outputs:
            self._outputs.setdefault(output.topic, deque()).append(output)
        for node, count in results.dropped.items():
            self.dropped[node] = self.dropped.get(node, 0) + count

    def _sink(self, topic: str) -> SinkNode | None:
        return next(
            (node for node in self._topology.nodes.values() if isinstance(node, SinkNode) and node.topic == topic), None
        )

    def _check_topic(self, topic: str) -> None:
        """Refuse a topic that no sink can write to."""
        sinks = [node for node in self._topology.nodes.values() if isinstance(node, SinkNode)]
        if self._sink(topic) is None and all(isinstance(sink.topic, str) for sink in sinks):
            known = [sink.topic for sink in sinks if isinstance(sink.topic, str)]
            raise TopologyError(f"the topology does not write to the topic {topic}{nearest(topic, known)}")
