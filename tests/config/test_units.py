"""Values of options with a unit become the plain numbers that brokers take."""

from __future__ import annotations

import pytest

from ottla.config.group import GroupConfig
from ottla.config.known import broker_options
from ottla.config.option import ConfigError, Option
from ottla.config.resolve import Layers, read_static, topic_problems
from ottla.config.topic import TopicConfig
from ottla.config.units import plain_number


def _option(name: str) -> Option:
    return TopicConfig.BY_NAME.get(name) or GroupConfig.BY_NAME.get(name) or broker_options()[name]


@pytest.mark.parametrize(
    ("name", "text", "plain"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "1h", "3600000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "5", "5"),
        ("retention.bytes", "1GiB", "1073741824"),
        ("segment.bytes", "64m", "67108864"),
        ("max.message.bytes", "2MiB", "2097152"),
        ("consumer.session.timeout.ms", "45s", "45000"),
        ("log.retention.hours", "7d", "168"),
        ("log.retention.minutes", "2h", "120"),
        ("quota.window.size.seconds", "1m", "60"),
        ("offsets.load.buffer.size", "5MiB", "5242880"),
        ("ottla.scrub.max.bytes.per.second", "8MiB", "8388608"),
        ("follower.replication.throttled.rate", "10MiB", "10485760"),
        ("ottla.scrub.interval.hours", "90m", "1.5"),
        ("cleanup.policy", "compact", "compact"),
        ("min.cleanable.dirty.ratio", "0.5", "0.5"),
        ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", "1.7976931348623157E308"),
    ],
)
def test_the_name_of_an_option_says_which_unit_its_numbers_have(name: str, text: str, plain: str) -> None:
    assert plain_number(_option(name), text) == plain


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("retention.ms", "1GiB", "GiB is not a unit|not a number or a duration"),
        ("retention.ms", "-1h", "not a number or a duration"),
        ("retention.ms", "soon", "not a number or a duration"),
        ("retention.ms", "1month", "differ in length"),
        ("retention.bytes", "1h", "not a number or a size"),
        ("log.retention.hours", "90m", "whole hours"),
        ("min.insync.replicas", "2h", "neither time nor bytes"),
        ("group.max.size", "1GiB", "neither time nor bytes"),
    ],
)
def test_a_unit_that_does_not_fit_is_refused_with_the_options_name(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        plain_number(_option(name), text)
    assert f"Invalid value {text} for configuration {name}" in str(refused.value)


def test_every_option_in_milliseconds_or_bytes_takes_units() -> None:
    options = [*broker_options().values(), *TopicConfig.OPTIONS, *GroupConfig.OPTIONS]
    assert all(plain_number(each, "1h") == "3600000" for each in options if each.name.endswith(".ms"))
    assert all(plain_number(each, "1KiB") == "1024" for each in options if each.name.endswith(".bytes"))


def test_a_broker_takes_units_wherever_its_options_are_said(tmp_path: object) -> None:
    file = f"{tmp_path}/server.properties"
    with open(file, "w", encoding="utf-8") as out:
        out.write("log.segment.bytes=64MiB\n")
    static = read_static(
        file=file, environment={"KAFKA_LOG_RETENTION_MS": "2d"}, command_line={"log.retention.bytes": "1GiB"}
    )
    assert {name: static.texts[name] for name in ("log.segment.bytes", "log.retention.ms", "log.retention.bytes")} == {
        "log.segment.bytes": "67108864",
        "log.retention.ms": "172800000",
        "log.retention.bytes": "1073741824",
    }
    with pytest.raises(ConfigError, match=r"log\.retention\.ms: not a number or a duration"):
        read_static(command_line={"log.retention.ms": "a while"})


def test_an_unknown_topic_option_is_refused_with_the_nearest_known_one() -> None:
    wrong = topic_problems({"retension.ms": "1"}, Layers({}))
    assert wrong == "Unknown topic config name: retension.ms (did you mean retention.ms?)"
    assert topic_problems({"log.retention.ms": "1"}, Layers({})) == (
        "Unknown topic config name: log.retention.ms (did you mean retention.ms?)"
    )
