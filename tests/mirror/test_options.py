"""MirrorMaker 2's property file."""

from __future__ import annotations

import pytest

from ottla.connect.errors import ConfigException
from ottla.mirror.options import mirrors_of
from ottla.mirror.topics import chosen

FILE = {
    "clusters": "us, eu",
    "us.bootstrap.servers": "us:9092",
    "eu.bootstrap.servers": "eu:9092",
    "us->eu.enabled": "true",
}


def test_a_flow_takes_its_own_options_before_those_of_all() -> None:
    given = FILE | {
        "eu->us.enabled": "true",
        "offset.lag.max": "7",
        "us->eu.offset.lag.max": "9",
        "us->eu.topics": "a,b",
    }
    flows = {flow.name: flow for flow in mirrors_of(given).flows}
    assert flows["us->eu"].options["offset.lag.max"] == 9
    assert flows["eu->us"].options["offset.lag.max"] == 7
    assert flows["us->eu"].topics.takes("a")
    assert not flows["us->eu"].topics.takes("c")
    assert flows["us->eu"].source.bootstrap == "us:9092"


def test_pairs_write_heartbeats_unless_that_is_switched_off() -> None:
    assert [flow.name for flow in mirrors_of(FILE).heartbeats] == ["us->eu", "eu->us"]
    assert not mirrors_of(FILE | {"emit.heartbeats.enabled": "false"}).heartbeats


def test_clients_have_the_options_of_their_cluster_and_their_side() -> None:
    given = FILE | {"us.client.id": "m", "us.consumer.auto.offset.reset": "latest", "us.consumer.fetch.min.bytes": "9"}
    [flow] = mirrors_of(given).flows
    assert (flow.source.client.client_id, flow.target.client.client_id) == ("m", "ottla-mirror")
    assert (flow.start, flow.fetch.min_bytes) == ("latest", 9)
    [flow] = mirrors_of(FILE | {"us->eu.source.consumer.auto.offset.reset": "latest"}).flows
    assert flow.start == "latest"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"us->eu.topcs": "a"}, "Unknown configuration 'us->eu.topcs'.*did you mean topics"),
        ({"emit.hearbeats.enabled": "true"}, "did you mean emit.heartbeats.enabled"),
        ({"us.topics": "a"}, "no option of a cluster; write it for a flow, as us->eu.topics"),
        ({"topic.filter.class": "com.example.Mine"}, "a filter of your own is a Java class"),
        ({"replication.policy.class": "Mine"}, "DefaultReplicationPolicy and .*IdentityReplicationPolicy"),
        ({"us->eu.enabled": "false"}, "no flow is enabled: write for example us->eu.enabled = true"),
        ({"clusters": "us"}, "at least two clusters"),
        ({"eu.bootstrap.servers": ""}, "eu.bootstrap.servers is missing"),
        ({"us->eu.topics": "("}, "is not a regular expression"),
        ({"consumer.auto.offset.reset": "none"}, "one of: earliest, latest"),
        ({"on.gap": "ignore"}, "one of: stop, continue"),
    ],
)
def test_what_is_wrong_is_refused_with_a_remedy(wrong: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigException, match=says):
        mirrors_of(FILE | wrong)


def test_known_options_without_effect_are_named() -> None:
    without = {"tasks.max": "4", "us.producer.linger.ms": "5", "refresh.groups.enabled": "false",
               "us->eu.target.producer.acks": "1", "us.consumer.security.protocol": "SSL"}  # fmt: skip
    assert sorted(mirrors_of(FILE | without).without_effect) == sorted(without)


def test_an_option_of_a_client_that_is_nearly_one_is_named_with_the_one_that_is_meant() -> None:
    [told] = mirrors_of(FILE | {"us.security.protocl": "SSL"}).without_effect
    assert told == "us.security.protocl (did you mean security.protocol?)"


def test_the_same_names_both_ways_are_refused_before_anything_runs() -> None:
    both = FILE | {"eu->us.enabled": "true", "replication.policy.class": "IdentityReplicationPolicy"}
    with pytest.raises(ConfigException, match="records would go round for ever"):
        mirrors_of(both)
    assert len(mirrors_of(both | {"eu->us.topics": "only-eu"}).flows) == 2


def test_topics_are_chosen_by_patterns_without_internal_ones_and_loops_and_with_heartbeats() -> None:
    [flow] = mirrors_of(FILE | {"topics": "orders.*", "topics.exclude": ".*-test"}).flows
    there = ["orders", "orders-test", "eu.orders", "payments", "heartbeats", "eu.heartbeats", "__consumer_offsets"]
    assert chosen(flow, there) == ["heartbeats", "orders"]
