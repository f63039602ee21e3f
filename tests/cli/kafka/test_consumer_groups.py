"""The tools show groups of the consumer protocol: their type, state, epochs, members and offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from tests.cli.conftest import Ottla


@pytest.fixture
def consumer(bootstrap: str, name: str, ottla: Ottla) -> Iterator[Consumer]:
    """A member of the group `name` that has read and committed all of the topic `name`."""
    assert ottla("topic", "create", name, "-p", "2").returncode == 0
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(6):
        producer.produce(name, str(number), partition=number % 2)
    assert producer.flush(30) == 0
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "group.protocol": "consumer",
            "client.id": "app",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    member.subscribe([name])
    assert len(member.consume(6, 30)) == 6
    member.commit(asynchronous=False)
    yield member
    member.close()


def test_ottla_group_tells_type_state_and_epochs(ottla: Ottla, name: str, consumer: Consumer) -> None:
    (group,) = [each for each in json.loads(ottla("group", "list", "--format", "json").stdout) if each["group"] == name]
    assert group == {"group": name, "type": "consumer", "state": "Stable", "protocol": "consumer"}
    (found,) = json.loads(ottla("group", "describe", name, "--format", "json").stdout)
    assert (found["type"], found["state"], found["assignor"], found["epoch"], found["target_epoch"]) == (
        "consumer", "Stable", "uniform", 2, 2,
    )  # fmt: skip
    assert (found["members"], found["lag"]) == (1, 0)
    assert [(part["partition"], part["committed"]) for part in found["partitions"]] == [(0, 3), (1, 3)]
    assert f"group {name}  consumer, stable, epoch 2, target 2, 1 members" in ottla("group", "describe", name).stdout


def test_a_group_with_members_is_not_reset(ottla: Ottla, name: str, consumer: Consumer) -> None:
    refused = ottla("group", "reset", name, "--to", "0", "--execute")
    assert refused.returncode == 1 and "stop its members first" in refused.stderr
    consumer.close()
    assert ottla("group", "reset", name, "--to", "0", "--execute").returncode == 0
    (found,) = json.loads(ottla("group", "describe", name, "--format", "json").stdout)
    assert (found["state"], found["lag"]) == ("Empty", 6)
    assert ottla("group", "delete", name).stdout == f"deleted group {name}\n"


def test_kafka_consumer_groups_shows_epochs_and_assignments(ottla: Ottla, name: str, consumer: Consumer) -> None:
    listed = ottla("kafka-consumer-groups", "--list", "--type", "consumer", "--state").stdout.splitlines()
    assert [line.split() for line in listed if line.startswith(name)] == [[name, "Consumer", "Stable"]]
    describe = ("kafka-consumer-groups", "--describe", "--group", name)
    state = ottla(*describe, "--state", "--verbose").stdout.split("\n")[2].split()
    assert state[-5:] == ["uniform", "Stable", "2", "2", "1"]
    member = ottla(*describe, "--members", "--verbose").stdout.split("\n")[2].split()
    assert member[3:] == ["app", "2", "2", f"{name}:0,1", "2", f"{name}:0,1"]
    offsets = [line.split()[1:6] for line in ottla(*describe).stdout.splitlines()[2:]]
    assert offsets == [[name, "0", "3", "3", "0"], [name, "1", "3", "3", "0"]]


def test_kafka_groups_lists_groups_by_type(ottla: Ottla, name: str, consumer: Consumer) -> None:
    def rows(*filters: str) -> list[list[str]]:
        lines = ottla("kafka-groups", "--list", *filters).stdout.splitlines()
        assert lines[0].split() == ["GROUP", "TYPE", "PROTOCOL"]
        return [line.split() for line in lines[1:] if line.startswith(name)]

    shown = [[name, "Consumer", "consumer"]]
    assert rows() == rows("--consumer") == rows("--group-type", "Consumer") == rows("--protocol", "consumer") == shown
    assert rows("--share") == rows("--streams") == rows("--group-type", "classic") == rows("--protocol", "x") == []
    assert ottla("kafka-groups", "--list", "--group-type", "other").returncode != 0


def test_patterns_are_checked_as_brokers_check_them(ottla: Ottla) -> None:
    def said(pattern: str) -> str:
        return ottla("kafka-consumer-groups", "--validate-regex", pattern).stdout

    assert "is valid" in said("orders-.*") and "is invalid" in said("(?=x)")
