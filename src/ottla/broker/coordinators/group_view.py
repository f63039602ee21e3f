"""The cluster's topics and group options, for the machines of consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ottla.config.resolve import Layers
from ottla.groups.topics import TopicShape
from ottla.groups.values import ConsumerGroupSettings
from ottla.metadata.state import GROUP_RESOURCE, Metadata, Topic

_MOST_KEPT = 10_000


class ClusterTopics:
    """The topics that clients may see."""

    def __init__(self, metadata: Callable[[], Metadata]) -> None:
        self._metadata = metadata

    @property
    def version(self) -> int:
        return self._metadata().version

    def by_name(self, name: str) -> TopicShape | None:
        return _shape(self._metadata().topic(name))

    def by_id(self, topic_id: bytes) -> TopicShape | None:
        return _shape(self._metadata().topic_by_id(topic_id))

    def names(self) -> Sequence[str]:
        return [topic.name for topic in self._metadata().visible_topics()]


def _shape(topic: Topic | None) -> TopicShape | None:
    return None if topic is None else TopicShape(topic.topic_id, topic.name, len(topic.partitions))


class GroupOptions:
    """The options of groups: their own over the broker's, within the bounds that the broker has now."""

    def __init__(self, metadata: Callable[[], Metadata], layers: Callable[[], Layers]) -> None:
        self._metadata = metadata
        self._layers = layers
        self._kept: dict[str, tuple[Layers, Mapping[str, str], ConsumerGroupSettings]] = {}
        """By group id, the options with the values that they were made of."""
        self._default: tuple[Layers, ConsumerGroupSettings] | None = None

    def consumer(self, group_id: str) -> ConsumerGroupSettings:
        layers = self._layers()
        overrides = self._metadata().config(GROUP_RESOURCE, group_id)
        if not overrides:
            if self._default is None or self._default[0] is not layers:
                self._default = (layers, _made(layers, {}))
            return self._default[1]
        kept = self._kept.get(group_id)
        if kept is None or kept[0] is not layers or kept[1] is not overrides:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            kept = self._kept[group_id] = (layers, overrides, _made(layers, overrides))
        return kept[2]


def _made(layers: Layers, overrides: Mapping[str, str]) -> ConsumerGroupSettings:
    """Make a group's options; its own values are kept within the broker's bounds, which may have moved since."""
    group, broker = layers.group(overrides), layers.broker()
    session_ms = broker.group_consumer_session_timeout_ms
    if "consumer.session.timeout.ms" in overrides:
        low, high = broker.group_consumer_min_session_timeout_ms, broker.group_consumer_max_session_timeout_ms
        session_ms = max(low, min(group.consumer_session_timeout_ms, high))
    heartbeat_ms = broker.group_consumer_heartbeat_interval_ms
    if "consumer.heartbeat.interval.ms" in overrides:
        low, high = broker.group_consumer_min_heartbeat_interval_ms, broker.group_consumer_max_heartbeat_interval_ms
        heartbeat_ms = max(low, min(group.consumer_heartbeat_interval_ms, high))
    assignment_ms = broker.group_consumer_assignment_interval_ms
    if "consumer.assignment.interval.ms" in overrides:
        low, high = broker.group_consumer_min_assignment_interval_ms, broker.group_consumer_max_assignment_interval_ms
        assignment_ms = max(low, min(group.consumer_assignment_interval_ms, high))
    return ConsumerGroupSettings(session_ms, heartbeat_ms, assignment_ms)
