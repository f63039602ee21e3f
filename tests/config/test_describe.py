"""DescribeConfigs gives each value with its source and its synonyms."""

from __future__ import annotations

from ottla.config.describe import (
    DescribedOption,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)
from ottla.config.known import broker_options
from ottla.config.option import OptionKind
from ottla.config.resolve import ConfigLayer, Layers
from ottla.config.topic import TopicConfig


def one(described: list[DescribedOption], name: str) -> DescribedOption:
    (found,) = [each for each in described if each.name == name]
    return found


def test_every_option_is_listed_by_name_but_not_the_internal_ones():
    names = [each.name for each in describe_topic({}, Layers())]
    assert names == sorted(set(TopicConfig.BY_NAME) - {"internal.segment.bytes"})
    assert "internal.segment.bytes" in [each.name for each in describe_topic({}, Layers(), ["internal.segment.bytes"])]
    listed = {each.name for each in describe_broker(Layers())}
    assert listed == {name for name, declared in broker_options().items() if not declared.internal}


def test_only_the_options_that_were_named_are_described():
    assert [each.name for each in describe_topic({}, Layers(), ["retention.ms", "nope"])] == ["retention.ms"]


def test_a_default_says_so_and_names_the_brokers_default():
    described = one(describe_topic({}, Layers()), "segment.bytes")
    assert (described.value, described.source, described.kind) == (
        "1073741824",
        ConfigLayer.DEFAULT_CONFIG,
        OptionKind.INT,
    )
    assert described.synonyms == (("log.segment.bytes", "1073741824", ConfigLayer.DEFAULT_CONFIG),)
    assert not described.read_only


def test_a_topics_own_value_comes_first_then_all_that_it_hides():
    layers = Layers({"log.segment.bytes": "2"}, {"log.segment.bytes": "3"}, {"log.segment.bytes": "4"})
    described = one(describe_topic({"segment.bytes": "5000000"}, Layers(*_all(layers))), "segment.bytes")
    assert [(name, value, source.name) for name, value, source in described.synonyms] == [
        ("segment.bytes", "5000000", "DYNAMIC_TOPIC_CONFIG"),
        ("log.segment.bytes", "4", "DYNAMIC_BROKER_CONFIG"),
        ("log.segment.bytes", "3", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("log.segment.bytes", "2", "STATIC_BROKER_CONFIG"),
        ("log.segment.bytes", "1073741824", "DEFAULT_CONFIG"),
    ]
    assert (described.value, described.source) == ("5000000", ConfigLayer.DYNAMIC_TOPIC_CONFIG)


def _all(layers: Layers) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    return dict(layers.static), dict(layers.default_dynamic), dict(layers.dynamic)


def test_a_value_and_its_synonym_are_told_as_they_are_understood():
    own = {"retention.ms": " 1000 ", "min.cleanable.dirty.ratio": "1", "cleanup.policy": "compact, delete"}
    described = describe_topic(own, Layers())
    for name, text in (
        ("retention.ms", "1000"),
        ("min.cleanable.dirty.ratio", "1.0"),
        ("cleanup.policy", "compact,delete"),
    ):
        assert one(described, name).value == text
        assert one(described, name).synonyms[0] == (name, text, ConfigLayer.DYNAMIC_TOPIC_CONFIG)


def test_a_time_in_a_coarser_unit_is_the_value_and_a_synonym():
    described = one(describe_topic({}, Layers({"log.retention.hours": "2"})), "retention.ms")
    assert (described.value, described.source) == ("7200000", ConfigLayer.STATIC_BROKER_CONFIG)
    assert described.synonyms[0] == ("log.retention.hours", "2", ConfigLayer.STATIC_BROKER_CONFIG)


def test_without_any_setting_a_time_has_no_synonyms_as_in_kafka():
    described = one(describe_topic({}, Layers()), "retention.ms")
    assert (described.value, described.synonyms) == ("604800000", ())


def test_a_broker_option_tells_whether_it_can_be_changed_while_the_broker_runs():
    described = describe_broker(Layers())
    assert one(described, "num.partitions").read_only
    assert not one(described, "log.retention.ms").read_only


def test_a_secret_is_never_told():
    described = one(describe_broker(Layers({"ssl.keystore.password": "secret"})), "ssl.keystore.password")
    assert described.sensitive
    assert described.value is None
    assert [synonym.value for synonym in described.synonyms] == [None]


def test_the_defaults_of_all_brokers_are_those_that_were_set():
    layers = Layers({"num.partitions": "3"}, {"log.retention.ms": "5"}, {"log.retention.ms": "6"})
    (described,) = describe_broker_defaults(layers)
    assert (described.name, described.value, described.source) == (
        "log.retention.ms", "5", ConfigLayer.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )  # fmt: skip


def test_a_groups_option_has_the_groups_source():
    described = describe_group({"consumer.session.timeout.ms": "50000"}, Layers())
    assert one(described, "consumer.session.timeout.ms").source == ConfigLayer.GROUP_CONFIG
    assert one(described, "share.auto.offset.reset").synonyms == (
        ("share.auto.offset.reset", "latest", ConfigLayer.DEFAULT_CONFIG),
    )
