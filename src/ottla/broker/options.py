"""The present options of this broker and of its topics: those of its start, and those set while it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.config.option import ConfigError
from ottla.config.resolve import Layers
from ottla.config.topic import TopicConfig
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE

if TYPE_CHECKING:
    from ottla.config.option import Option
    from ottla.kernel.ids import BrokerId, TopicId
    from ottla.metadata.state import Metadata, Topic

log = logging.getLogger("ottla.node")


class _TopicOptions(NamedTuple):
    """A topic's options, with the values that they were made of."""

    layers: Layers
    stored: Mapping[str, str]
    usable: Mapping[str, str]
    config: TopicConfig


class BrokerOptions:
    """`layers` holds the values with their sources, `config` the broker's resulting options."""

    __slots__ = ("_topics", "config", "layers")

    def __init__(self, layers: Layers) -> None:
        self.layers = layers
        self.config = layers.broker()
        self._topics: dict[TopicId, _TopicOptions] = {}

    def take(self, metadata: Metadata, broker: BrokerId) -> None:
        """Take changed broker options from the metadata; topics inherit from them."""
        self.layers = Layers(
            self.layers.static,
            _of_broker(metadata.config(BROKER_RESOURCE, ALL_BROKERS), "all brokers"),
            _of_broker(metadata.config(BROKER_RESOURCE, str(broker)), f"broker {broker}"),
        )
        self.config = self.layers.broker()

    def topic_config(self, topic: Topic) -> TopicConfig:
        """The topic's options."""
        return self._kept(topic).config

    def topic_values(self, topic: Topic) -> Mapping[str, str]:
        """The values that are set for a topic, without those that this version refuses."""
        return self._kept(topic).usable

    def _kept(self, topic: Topic) -> _TopicOptions:
        """Made once for all partitions of a topic: making them takes longer than a change of leaders."""
        kept = self._topics.get(topic.topic_id)
        if kept is None or kept.layers is not self.layers or kept.stored is not topic.configs:
            usable = _usable(topic.configs, TopicConfig.BY_NAME, f"topic {topic.name}")
            kept = _TopicOptions(self.layers, topic.configs, usable, self.layers.topic(usable))
            self._topics[topic.topic_id] = kept
        return kept

    def forget(self, topic_id: TopicId) -> None:
        """Forget a deleted topic."""
        self._topics.pop(topic_id, None)


def _of_broker(texts: Mapping[str, str], whose: str) -> Mapping[str, str]:
    if not texts:
        return texts
    from ottla.config.known import broker_options  # most brokers never need it

    return _usable(texts, broker_options(), whose)


def _usable(texts: Mapping[str, str], options: Mapping[str, Option], whose: str) -> Mapping[str, str]:
    """Stored values without those that this version refuses: a broker of another version took them.

    A broker that failed at them would fail at every start.
    """
    wrong = {}
    for name, text in texts.items():
        try:
            if name in options:
                options[name].parse(text)
        except ConfigError as fault:
            wrong[name] = fault
            log.warning("an option that is stored for %s is left out: %s", whose, fault)
    return {name: text for name, text in texts.items() if name not in wrong} if wrong else texts
