"""The topics of global tables, read whole by one process and shared by all its tasks."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client import Consumer, TopicPartition
from ottla.client.model import LATEST, IsolationLevel
from ottla.streams.connection import ClusterConnection
from ottla.streams.engine.task import Task
from ottla.streams.graph import Topology
from ottla.streams.stores import Store
from ottla.streams.stores.disk import database
from ottla.streams.values import Input, Place

_POLL_MS = 200


class GlobalTables:
    """Follows the topics of a topology's global tables; committed records alone count."""

    def __init__(self, topology: Topology, where: ClusterConnection, stores: str) -> None:
        self._topics = [topic for source in topology.sources() if source.global_store for topic in source.topics]
        self._task = Task(topology, sub_topologies=(), rows=database(stores))
        self._consumer: Consumer | None = None
        if self._topics:
            self._consumer = where.reader()
            self._consumer.assign(self._partitions())
            self._consumer.seek_to_beginning()

    @property
    def stores(self) -> Mapping[str, Store]:
        """The tables' stores, for `Task(shared=…)`."""
        return self._task.stores

    def ends(self) -> dict[TopicPartition, int]:
        """The present ends of the committed records."""
        if self._consumer is None:
            return {}
        found = self._consumer.cluster.list_offsets(self._partitions(), LATEST, IsolationLevel.READ_COMMITTED)
        return {partition: end.offset for partition, end in found.items()}

    def position(self) -> dict[TopicPartition, int]:
        """The offsets up to which the tables have been read."""
        if self._consumer is None:
            return {}
        return {partition: self._consumer.position(partition) for partition in self._consumer.assignment}

    def read_to(self, ends: Mapping[TopicPartition, int]) -> None:
        """Read until every partition is at least at its end; new partitions are read too."""
        assert self._consumer is not None or not ends
        if self._consumer is None:
            return
        if new := ends.keys() - self._consumer.assignment:
            at = {partition: self._consumer.position(partition) for partition in self._consumer.assignment}
            self._consumer.assign(sorted(self._consumer.assignment | new))
            for partition, offset in at.items():
                self._consumer.seek(partition, offset)
        while short := [each for each, end in ends.items() if self._consumer.position(each) < end]:
            self._consumer.pause(sorted(self._consumer.assignment - set(short)))
            self._take(_POLL_MS, ends)
            self._consumer.resume(sorted(self._consumer.assignment))

    def close(self) -> None:
        """Close the connections."""
        if self._consumer is not None:
            self._consumer.close()

    def _partitions(self) -> list[TopicPartition]:
        assert self._consumer is not None
        return [each for topic in self._topics for each in self._consumer.cluster.partitions(topic)]

    def _take(self, wait_ms: int, ends: Mapping[TopicPartition, int]) -> None:
        """Read what there is, and nothing behind the ends: a repeated batch must find the same rows."""
        assert self._consumer is not None
        for record in self._consumer.poll(wait_ms):
            partition = TopicPartition(record.topic, record.partition)
            if record.offset >= ends[partition]:
                self._consumer.seek(partition, ends[partition])
                continue
            place = Place(record.topic, record.partition, record.offset)
            self._task.feed(Input(place, record.key, record.value, record.timestamp, record.headers))
        self._task.take(0)  # the topic is the tables' changelog
