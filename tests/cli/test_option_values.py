"""Configurations on a command line: units, and names that nobody knows."""

from __future__ import annotations

import json

import pytest
from conftest import Ottla


def _configs(ottla: Ottla, topic: str) -> dict[str, str]:
    (described,) = json.loads(ottla("topic", "describe", topic, "--format", "json").stdout)
    return dict(described["configs"])


def test_a_topic_takes_durations_and_sizes(ottla: Ottla, name: str) -> None:
    created = ottla("topic", "create", name, "-c", "retention.ms=7d", "-c", "segment.bytes=64MiB")
    assert created.returncode == 0, created.stderr
    assert _configs(ottla, name) == {"retention.ms": "604800000", "segment.bytes": "67108864"}
    assert ottla("topic", "alter", name, "-c", "retention.bytes=1GiB").returncode == 0
    assert ottla("config", "set", "topic", name, "retention.ms=1h").returncode == 0
    assert _configs(ottla, name) == {
        "retention.bytes": "1073741824",
        "retention.ms": "3600000",
        "segment.bytes": "67108864",
    }
    assert ottla("config", "set", "topic", name, "retention.ms=-1").returncode == 0
    assert _configs(ottla, name)["retention.ms"] == "-1"


def test_kafkas_tools_take_durations_and_sizes_too(ottla: Ottla, name: str) -> None:
    assert ottla("kafka-topics", "--create", "--topic", name, "--config", "retention.ms=2h").returncode == 0
    added = ottla("kafka-configs", "--alter", "--topic", name, "--add-config", "segment.bytes=2MiB,retention.bytes=1g")
    assert added.returncode == 0, added.stderr
    assert _configs(ottla, name) == {
        "retention.bytes": "1073741824",
        "retention.ms": "7200000",
        "segment.bytes": "2097152",
    }
    refused = ottla("kafka-configs", "--alter", "--topic", name, "--add-config", "retention.ms=soon")
    assert "Invalid value soon for configuration retention.ms: not a number or a duration" in refused.stderr


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("retention.ms=1GiB", "retention.ms"),
        ("retention.ms=-1h", "not a number or a duration; write e.g."),
        ("segment.bytes=1h", "not a number or a size; write e.g."),
        ("min.insync.replicas=1h", "min.insync.replicas: it counts neither time nor bytes"),
        ("retension.ms=1h", "Unknown topic config name: retension.ms (did you mean retention.ms?)"),
        ("log.retention.ms=1h", "(did you mean retention.ms?)"),
    ],
)
def test_a_topic_option_that_is_wrong_is_refused_and_no_topic_is_made(
    ottla: Ottla, name: str, config: str, said: str
) -> None:
    refused = ottla("topic", "create", name, "-c", config)
    assert refused.returncode != 0
    assert said in refused.stderr
    assert ottla("topic", "describe", name).returncode == 1


def test_an_option_that_is_unset_or_asked_for_must_exist(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name, "-c", "retention.ms=1h")
    for arguments in (
        ["config", "unset", "topic", name, "retension.ms"],
        ["config", "get", "topic", name, "retension.ms"],
        ["topic", "alter", name, "--delete-config", "retension.ms"],
    ):
        refused = ottla(*arguments)
        assert refused.returncode == 2, arguments
        assert "did you mean retention.ms?" in refused.stderr
    assert ottla("config", "unset", "topic", name, "retention.ms").returncode == 0
    assert _configs(ottla, name) == {}


def test_options_of_brokers_and_groups_have_a_nearest_one_too(ottla: Ottla, name: str) -> None:
    assert ottla("config", "set", "broker", "default", "log.retention.ms=7d").returncode == 0
    (shown,) = json.loads(ottla("config", "get", "broker", "default", "log.retention.ms", "--format", "json").stdout)
    assert shown["value"] == "604800000"
    assert ottla("config", "unset", "broker", "default", "log.retention.ms").returncode == 0
    broker = ottla("config", "set", "broker", "default", "log.retension.ms=7d")
    assert "did you mean log.retention.ms?" in broker.stderr
    group = ottla("config", "set", "group", name, "consumer.sesion.timeout.ms=45s")
    assert "did you mean consumer.session.timeout.ms?" in group.stderr
    assert ottla("config", "set", "group", name, "consumer.session.timeout.ms=50s").returncode == 0


def test_the_columns_of_a_cluster_are_explained_to_those_who_ask(ottla: Ottla) -> None:
    plain, explained = ottla("cluster", "status").stdout, ottla("cluster", "status", "--legend").stdout
    assert "BROKER" in plain
    assert "declares brokers gone" not in plain
    assert "declares brokers gone" in explained
