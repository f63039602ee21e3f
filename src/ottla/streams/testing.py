"""Runs a topology in a user's unit tests, without a broker and without Spark, as Kafka's TopologyTestDriver does."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.streams.engine.task import Output, Task
from ottla.streams.errors import TopologyError
from ottla.streams.graph import SinkNode, Topology
from ottla.streams.naming import nearest
from ottla.streams.on_error import Fault, OnError, chosen
from ottla.streams.patterns import SourceOf
from ottla.streams.stores.disk import MEMORY, database
from ottla.streams.values import Headers, Input, Place


@dataclass(frozen=True, slots=True)
class TestRecord:
    """A record that the topology wrote to a topic."""

    __test__ = False

    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()
    partition: int | None = None
    """The partition that a partitioner chose; None for that of the key, as Kafka chooses it."""


class TopologyTest:
    """Takes records one by one; each is processed to its end before the call returns.

    test = TopologyTest(topology)
    test.pipe_input("lines", None, "so it is", timestamp=0)
    assert test.read_records("counts") == [("so", 1), ("it", 1), ("is", 1)]
    """

    __test__ = False

    def __init__(
        self, topology: Topology, *, wall_clock_ms: int = 0, on_error: str | OnError = "fail", stores: str = MEMORY,
        partitions: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """`on_error` and `stores` are those of `run`: faults that do not fail are in `faults`.

        `partitions`: how many a topic has that is written to, for partitioners; 1 where it is not named.
        """
        self._topology = topology
        self._source_of = SourceOf(topology.sources())
        counts = dict(partitions or {})
        for topic, count in counts.items():
            self._check_topic(topic)
            if count < 1:
                raise TopologyError(f"the topic {topic} cannot have {count} partitions: the least is 1")
        self._task = Task(
            topology, on_error=chosen(on_error), rows=database(stores), partitions_of=lambda topic: counts.get(topic, 1)
        )
        self._task.advance(wall_clock_ms)
        self._batch = 0
        self._offsets: dict[str, int] = {}
        self._outputs: dict[str, deque[Output]] = {}
        self.dropped: dict[str, int] = {}
        """The number of records that each node has left out: late ones, those without a key."""
        self.faults: list[Fault] = []
        """The records that failed and were skipped, or would be dead letters (`letter`)."""
        self._take()

    def pipe_input(self, topic: str, key: Any, value: Any, timestamp: int | None = None, headers: Headers = ()) -> None:
        """Write a record to a topic that the topology reads; without a timestamp it has the time of day of the test."""
        source = self._source_of.find(topic)
        place = Place(topic, 0, self._offsets.get(topic, 0))
        self._offsets[topic] = place.offset + 1
        time = self._task.wall_clock_ms if timestamp is None else timestamp
        self._task.feed(Input(place, source.key.to_bytes(key), source.value.to_bytes(value), time, headers))
        self._take()

    def read_output(self, topic: str) -> TestRecord | None:
        """The next record of a topic that the topology wrote, or None."""
        queue = self._outputs.get(topic)
        if not queue:
            self._check_topic(topic)
            return None
        output = queue.popleft()
        sink = self._topology.nodes[output.sink]
        assert isinstance(sink, SinkNode)
        key, value = sink.key.from_bytes(output.key), sink.value.from_bytes(output.value)
        return TestRecord(key, value, output.timestamp, output.headers, output.partition)

    def read_outputs(self, topic: str) -> list[TestRecord]:
        """All records of a topic that were not read yet."""
        records = []
        while (record := self.read_output(topic)) is not None:
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
        self.faults += results.faults

    def _check_topic(self, topic: str) -> None:
        """Refuse a topic that no sink can write to."""
        topics = [node.topic for node in self._topology.nodes.values() if isinstance(node, SinkNode)]
        known = [name for name in topics if isinstance(name, str)]
        if topic not in known and len(known) == len(topics):
            raise TopologyError(f"the topology does not write to the topic {topic}{nearest(topic, known)}")
