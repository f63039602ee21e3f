"""Names of mirrored topics, and the topics that are not mirrored."""

from __future__ import annotations

import pytest

from ottla.mirror.policy import NameFilter, ReplicationPolicy

DEFAULT = ReplicationPolicy()
IDENTITY = ReplicationPolicy(keeps_names=True, source="us")


def test_a_mirror_is_called_by_its_source_and_its_name_tells_both_again() -> None:
    assert DEFAULT.remote_topic("us", "orders") == "us.orders"
    assert (DEFAULT.source_of("us.orders"), DEFAULT.upstream_of("us.orders")) == ("us", "orders")
    assert (DEFAULT.source_of("orders"), DEFAULT.upstream_of("orders")) == (None, None)
    assert ReplicationPolicy("_", "_").remote_topic("us", "orders") == "us_orders"


def test_the_identity_policy_keeps_all_names_but_those_of_heartbeats() -> None:
    assert IDENTITY.remote_topic("us", "orders") == "orders"
    assert IDENTITY.remote_topic("us", "heartbeats") == "us.heartbeats"
    assert IDENTITY.remote_topic("eu", "us.heartbeats") == "eu.us.heartbeats"


def test_a_topic_that_was_in_the_target_before_is_found_however_long_the_way_was() -> None:
    assert DEFAULT.passed_through("eu.orders", "eu")
    assert DEFAULT.passed_through("us.eu.orders", "eu")
    assert not DEFAULT.passed_through("us.orders", "eu")
    assert not DEFAULT.passed_through("orders", "eu")


@pytest.mark.parametrize(
    "topic",
    ["__consumer_offsets", ".hidden", "mm2-offset-syncs.b.internal", "a.checkpoints.internal", "connect-internal"],
)
def test_internal_topics_are_never_mirrored(topic: str) -> None:
    assert DEFAULT.is_internal(topic)


def test_the_mirrors_own_topics_are_internal_under_every_separator() -> None:
    for policy in (DEFAULT, ReplicationPolicy("_", "_"), ReplicationPolicy("-", ".")):
        for topic in (policy.offset_syncs_topic("b"), policy.checkpoints_topic("a"), policy.map_topic("a")):
            assert policy.is_internal(topic), topic
    assert DEFAULT.offset_syncs_topic("b") == "mm2-offset-syncs.b.internal"
    assert ReplicationPolicy("_", "_").checkpoints_topic("a") == "a_checkpoints_internal"


def test_what_is_excluded_beats_what_is_included_and_patterns_match_whole_names() -> None:
    names = NameFilter(["orders.*", "pay"], [".*-test"])
    assert names.takes("orders-eu")
    assert not names.takes("orders-test")
    assert not names.takes("payments")
    assert not NameFilter([], []).takes("orders")
    with pytest.raises(ValueError, match=r"'\(' is not a regular expression"):
        NameFilter(["("], [])
