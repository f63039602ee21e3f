"""The client's view of the cluster: brokers, topics, leaders. Written from Metadata answers and KIP-951 hints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.client.model import Broker, PartitionView, TopicView
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    from ottla.messages.metadata import MetadataResponse, MetadataResponseTopic


class MetadataCache:
    """The latest view; a partition's leader never goes back to an older epoch of the same topic."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, TopicView] = {}
        self.names: dict[bytes, str] = {}
        self.updated_ms: float = -1.0
        self.taken_ms: dict[str, float] = {}
        """The time of the last answer about each topic."""
        self._doubted: set[str] = set()

    def take(self, response: MetadataResponse, now_ms: float, *, everything: bool) -> None:
        """Write an answer in; `everything`: it lists all topics, others are gone."""
        if response.brokers:
            self.brokers = {
                broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
                for broker in response.brokers
            }
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        fresh = {topic.name: self._topic(topic) for topic in response.topics if topic.name is not None}
        if everything:
            self.topics = {}
        self.topics.update(fresh)
        self._doubted.difference_update(fresh)
        self.taken_ms.update(dict.fromkeys(fresh, now_ms))
        for name, view in fresh.items():
            if view.has_id:
                self.names[view.topic_id] = name
        self.updated_ms = now_ms

    def doubt(self, topic: str) -> None:
        """Note that something about this topic is out of date: `missing` names it until a new answer comes."""
        self._doubted.add(topic)

    def doubt_unlisted(self, partitions: Iterable[TopicPartition]) -> None:
        """Doubt the topics of partitions that the last answers did not list: partitions may have been added since."""
        for topic, partition in partitions:
            view = self.topics.get(topic)
            if view is None or partition not in view.partitions:
                self.doubt(topic)

    def missing(self, topics: Iterable[str]) -> list[str]:
        """The topics that are unknown, doubted or without a leader somewhere."""
        return [
            name
            for name in topics
            if name in self._doubted
            or (view := self.topics.get(name)) is None
            or view.error
            or any(partition.leader not in self.brokers for partition in view.partitions.values())
        ]

    def knows(self, topics: Iterable[str]) -> bool:
        """True if none of these topics is unknown or doubted, whether or not their partitions have leaders."""
        return all(
            name not in self._doubted and (view := self.topics.get(name)) is not None and not view.error
            for name in topics
        )

    def is_leaderless(self, topic: str, partition: int) -> bool:
        """True if the partition exists, as far as is known, and has no leader."""
        view = self.topics.get(topic)
        known = view is not None and not view.error and partition in view.partitions
        return known and self.leader(topic, partition) is None

    def leader(self, topic: str, partition: int) -> Broker | None:
        view = self.topics.get(topic)
        known = view.partitions.get(partition) if view is not None else None
        return self.brokers.get(known.leader) if known is not None else None

    def is_led(self, topic: str, partition: int) -> bool:
        """True if the partition's leader is known and not in doubt, however it is with others of its topic."""
        return topic not in self._doubted and self.leader(topic, partition) is not None

    def leader_epoch(self, topic: str, partition: int) -> int:
        view = self.topics.get(topic)
        known = view.partitions.get(partition) if view is not None else None
        return known.leader_epoch if known is not None else -1

    def topic_id(self, topic: str) -> bytes:
        """The topic's id; 16 zero bytes if it has none."""
        view = self.topics.get(topic)
        return view.topic_id if view is not None else NO_TOPIC_ID

    def hint(self, place: TopicPartition, leader: int, epoch: int, endpoints: Iterable[Broker]) -> None:
        """Take a leader from a Produce or Fetch answer (KIP-951): no Metadata round trip is needed."""
        topic, partition = place
        view = self.topics.get(topic)
        known = view.partitions.get(partition) if view is not None else None
        if view is None or known is None or leader < 0 or epoch <= known.leader_epoch:
            self.doubt(topic)
            return
        for broker in endpoints:
            self.brokers.setdefault(broker.id, broker)
        if leader not in self.brokers:
            self.doubt(topic)
            return
        partitions = dict(view.partitions)
        partitions[partition] = known._replace(leader=leader, leader_epoch=epoch, error=ErrorCode.NONE)
        self.topics[topic] = view._replace(partitions=partitions)

    def _topic(self, topic: MetadataResponseTopic) -> TopicView:
        name = topic.name or ""
        old = self.topics.get(name)
        if old is not None and old.topic_id != topic.topic_id:
            old = None
        partitions: dict[int, PartitionView] = {}
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index):
            index = partition.partition_index
            known = old.partitions.get(index) if old is not None else None
            leader, epoch = partition.leader_id, partition.leader_epoch
            if known is not None and -1 < epoch < known.leader_epoch:
                leader, epoch = known.leader, known.leader_epoch
            partitions[index] = PartitionView(
                index,
                leader,
                epoch,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
                tuple(partition.offline_replicas),
                _code(partition.error_code),
            )
        return TopicView(name, bytes(topic.topic_id), topic.is_internal, partitions, _code(topic.error_code))


def _code(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
