"""The options of a broker and its topics, as they change while it runs."""

from __future__ import annotations

import pytest

from ottla.broker.options import BrokerOptions
from ottla.config.describe import describe_topic
from ottla.config.resolve import Layers
from ottla.kernel.ids import BrokerId, TopicId
from ottla.metadata.entries import Body, ConfigChange, ConfigsSet, TopicCreated
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE, TOPIC_RESOURCE, Metadata

TOPIC_ID = TopicId(bytes(15) + b"\1")
ME = BrokerId(1)


def a_metadata(*bodies: Body) -> Metadata:
    """The state after a topic of this id was made, and these entries applied."""
    metadata = Metadata()
    for body in (TopicCreated(topic_id=TOPIC_ID, name="t", configs=[]), *bodies):
        metadata.apply(metadata.version + 1, body)
    return metadata


def is_set(resource_type: int, resource_name: str, **options: str) -> ConfigsSet:
    """An entry that sets options of a resource."""
    changes = [ConfigChange(name=name.replace("_", "."), value=value) for name, value in options.items()]
    return ConfigsSet(resource_type=resource_type, resource_name=resource_name, changes=changes)


def test_what_is_set_for_one_broker_goes_before_what_is_set_for_all_and_both_before_the_start() -> None:
    options = BrokerOptions(Layers({"log.cleaner.backoff.ms": "1", "log.retention.ms": "1", "num.partitions": "3"}))
    metadata = a_metadata(
        is_set(BROKER_RESOURCE, ALL_BROKERS, log_cleaner_backoff_ms="2", log_retention_ms="2"),
        is_set(BROKER_RESOURCE, "1", log_cleaner_backoff_ms="3"),
        is_set(BROKER_RESOURCE, "2", log_retention_ms="4"),
    )
    assert options.config.log_cleaner_backoff_ms == 1
    options.take(metadata, ME)
    assert (options.config.log_cleaner_backoff_ms, options.config.num_partitions) == (3, 3)
    assert options.topic_config(metadata.topics[TOPIC_ID]).retention_ms == 2


def test_a_topics_options_are_made_once_and_again_when_those_of_the_broker_change() -> None:
    options, metadata = BrokerOptions(Layers()), a_metadata()
    topic = metadata.topics[TOPIC_ID]
    before = options.topic_config(topic)
    assert options.topic_config(topic) is before
    metadata.apply(metadata.version + 1, is_set(BROKER_RESOURCE, ALL_BROKERS, log_retention_ms="7"))
    options.take(metadata, ME)
    assert options.topic_config(topic).retention_ms == 7 != before.retention_ms


def test_a_topics_own_options_are_followed_as_they_are_set() -> None:
    options, metadata = BrokerOptions(Layers()), a_metadata()
    assert options.topic_config(metadata.topics[TOPIC_ID]).retention_ms != 9
    metadata.apply(metadata.version + 1, is_set(TOPIC_RESOURCE, "t", retention_ms="9"))
    assert options.topic_config(metadata.topics[TOPIC_ID]).retention_ms == 9


def test_stored_values_that_this_version_refuses_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A broker of another version took them; this one must come up all the same."""
    options = BrokerOptions(Layers({"log.cleaner.backoff.ms": "1"}))
    metadata = a_metadata(
        is_set(BROKER_RESOURCE, ALL_BROKERS, ottla_scrub_interval_hours="NaN", log_retention_ms="2"),
        is_set(BROKER_RESOURCE, "1", log_cleaner_backoff_ms="soon"),
        is_set(TOPIC_RESOURCE, "t", cleanup_policy="squeeze", segment_ms="7"),
    )
    options.take(metadata, ME)
    assert (options.config.log_cleaner_backoff_ms, options.config.scrub_interval_hours) == (1, 168.0)
    topic = options.topic_config(metadata.topics[TOPIC_ID])
    assert (topic.cleanup_policy, topic.segment_ms, topic.retention_ms) == (("delete",), 7, 2)
    described = describe_topic(options.topic_values(metadata.topics[TOPIC_ID]), options.layers)
    values = {each.name: each.value for each in described}
    assert (values["cleanup.policy"], values["segment.ms"]) == ("delete", "7")
    assert [record.args[0] for record in caplog.records] == ["all brokers", "broker 1", "topic t"]  # type: ignore[index]


def test_a_deleted_topic_is_forgotten() -> None:
    options, metadata = BrokerOptions(Layers()), a_metadata()
    before = options.topic_config(metadata.topics[TOPIC_ID])
    options.forget(TOPIC_ID)
    assert options.topic_config(metadata.topics[TOPIC_ID]) is not before
