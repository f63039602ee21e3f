"""The present options of this broker and of its topics: those of its start, and those set while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.config.resolve import Layers
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE

if TYPE_CHECKING:
    from ottla.config.topic import TopicConfig
    from ottla.kernel.ids import BrokerId, TopicId
    from ottla.metadata.state import Metadata, Topic


class Options:
    """`layers` holds the values with their sources, `config` the broker's resulting options."""

    __slots__ = ("_topics", "config", "layers")

    def __init__(self, layers: Layers) -> None:
        self.layers = layers
        self.config = layers.broker()
        self._topics: dict[TopicId, tuple[Layers, Mapping[str, str], TopicConfig]] = {}
        """The options of each topic, with the values that they were made of."""

    def take(self, metadata: Metadata, broker: BrokerId) -> None:
        """Take changed broker options from the metadata; topics inherit from them."""
        self.layers = Layers(
            self.layers.static,
            metadata.config(BROKER_RESOURCE, ALL_BROKERS),
            metadata.config(BROKER_RESOURCE, str(broker)),
        )
        self.config = self.layers.broker()

    def topic_config(self, topic: Topic) -> TopicConfig:
        """The topic's options, made once for all its partitions: making them takes longer than a change of leaders."""
        kept = self._topics.get(topic.topic_id)
        if kept is None or kept[0] is not self.layers or kept[1] is not topic.configs:
            kept = self._topics[topic.topic_id] = (self.layers, topic.configs, self.layers.topic(topic.configs))
        return kept[2]

    def forget(self, topic_id: TopicId) -> None:
        """Forget a deleted topic."""
        self._topics.pop(topic_id, None)
