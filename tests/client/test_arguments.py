"""Arguments of calls: those that cannot be meant are refused by name, before a broker is asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ottla.client import Admin, CommittedOffset, Consumer, NewTopic, TopicPartition
from ottla.client.admin.given import config_text

ONE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda admin: admin.delete_topics("ab"), r"names is a list, such as \['ab'\], not 'ab' alone"),
        (lambda admin: admin.describe_topics("ab"), "names is a list"),
        (lambda admin: admin.delete_groups("ab"), "groups is a list"),
        (lambda admin: admin.describe_groups(groups="ab"), "groups is a list"),
        (lambda admin: admin.describe_transactions("ab"), "transactional_ids is a list"),
        (lambda admin: admin.create_topics([], validate=True), r"no keyword 'validate'; did you mean validate_only\?"),
        (lambda admin: admin.create_topic("t", partitions="3"), "partitions is a whole number, not '3'"),
        (lambda admin: admin.create_topics([NewTopic("t", 1, 1.5)]), "replication_factor is a whole number, not 1.5"),
        (lambda admin: admin.create_topic("t", configs={"retention.ms": [5]}), "the option 'retention.ms' is text or"),
    ],
)
def test_an_admin_refuses_what_cannot_be_meant(call: Callable[[Any], Any], said: str):
    with Admin("localhost:1") as admin, pytest.raises(TypeError, match=said):
        call(admin)


def test_options_of_a_topic_may_be_numbers_and_switches():
    assert config_text("retention.ms", "7d") == "604800000" and config_text("segment.bytes", "1MiB") == "1048576"
    with pytest.raises(ValueError, match=r"Invalid value 7 bananas for configuration retention.ms: not a number or"):
        config_text("retention.ms", "7 bananas")
    assert [config_text("x", value) for value in (5, 0.5, True, False, "a", None)] == [
        *("5", "0.5", "true", "false", "a"),
        None,
    ]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda consumer: consumer.poll("5 moons"), "timeout_ms is .* not '5 moons'"),
        (lambda consumer: consumer.poll(-1), "timeout_ms is .* not -1"),
        (lambda consumer: consumer.poll(None), "timeout_ms is .* not None"),
        (lambda consumer: consumer.poll(0, max_records=0), "max_records is a whole number, from 1 .* not 0"),
        (lambda consumer: consumer.assign(["t"]), r"partitions are a list such as .* not \['t'\]"),
        (lambda consumer: consumer.assign("t"), "partitions are a list such as .* not 't'"),
        (lambda consumer: consumer.assign(ONE), r"partitions are a list such as .* not TopicPartition"),
        (lambda consumer: consumer.commit({ONE: 5}), "offsets to commit are a dict such as"),
        (lambda consumer: consumer.commit({("t", 0): CommittedOffset(5)}), "offsets to commit are a dict such as"),
        (lambda consumer: consumer.commit(5), "offsets to commit are a dict such as"),
        (lambda consumer: consumer.subscribe([1]), "subscribe takes a list of topics"),
    ],
)
def test_a_consumer_refuses_what_cannot_be_meant(call: Callable[[Any], Any], said: str):
    with Consumer("localhost:1", group_id="g") as consumer, pytest.raises((TypeError, ValueError), match=said):
        call(consumer)


@pytest.mark.parametrize("timeout", [20, 20.0, "20ms", timedelta(milliseconds=20)])
def test_a_poll_takes_its_timeout_in_words(ours: str, timeout: Any):
    with Consumer(ours) as consumer:
        assert consumer.poll(timeout) == []
