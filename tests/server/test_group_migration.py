"""Consumers of confluent-kafka are moved one by one from the classic protocol to KIP-848's and back."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient
from group_clients import OPTIONS, admin, assigned, produce
from tests.java_tools import java

from ottla.testing import TestBroker

pytestmark = [pytest.mark.slow]
CLASSIC: dict[str, Any] = {"group.protocol": "classic", "heartbeat.interval.ms": 200, "session.timeout.ms": 10_000}
MODERN: dict[str, Any] = {"group.protocol": "consumer"}
PARTITIONS = 4


class Members:
    """The members of one group. Each commits every record before it takes the next."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.living: list[Consumer] = []
        self.read: Counter[int] = Counter()
        self.commit_failed: set[int] = set()

    def start(self, options: dict[str, Any]) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
            | options
        )
        consumer.subscribe(["t"])
        self.living.append(consumer)
        return consumer

    def stop(self, consumer: Consumer) -> None:
        self.living.remove(consumer)
        consumer.close()

    def poll_until(self, holds: Callable[[], bool], within_s: float = 300) -> None:
        end = time.monotonic() + within_s
        while not holds():
            assert time.monotonic() < end, [assigned(each) for each in self.living]
            for consumer in self.living:
                message = consumer.poll(0.02)
                if message is None:
                    continue
                assert message.error() is None or message.error().retriable(), message.error()
                if message.error() is None:
                    self._take(consumer, message)

    def _take(self, consumer: Consumer, message: Any) -> None:
        number = int(message.value())
        self.read[number] += 1
        try:
            consumer.commit(message, asynchronous=False)
        except KafkaException:
            self.commit_failed.add(number)

    def share_all(self) -> bool:
        """True if each member has partitions, and together they have every partition once."""
        parts = [assigned(each) for each in self.living]
        return all(parts) and sum(map(len, parts)) == PARTITIONS == len(set().union(*parts))


@pytest.fixture
def members() -> Iterator[Members]:
    with TestBroker(OPTIONS) as broker:
        made = Members(broker.bootstrap_servers)
        try:
            yield made
        finally:
            for consumer in list(made.living):
                made.stop(consumer)


def dumped(libs: Path, log: Path) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Keys and values as Kafka's dump tool reads them in a log of the offsets topic."""
    said = java(libs, "DumpLogSegments", "--files", str(log), "--offsets-decoder")
    assert "could not be decoded" not in said and "Error" not in said
    found = re.findall(r" key: (\{.*?\}) payload: (.*)", said)
    return [(json.loads(key), json.loads(value) if value.startswith("{") else None) for key, value in found]


def kind(client: AdminClient) -> str:
    (listed,) = client.list_consumer_groups().result(30).valid
    return str(listed.type.name)


@pytest.mark.parametrize("strategy", ["range,roundrobin", "cooperative-sticky"])
def test_a_group_is_rolled_to_the_consumer_protocol_and_back_without_a_stop(members: Members, strategy: str):
    servers = members.servers
    client = admin(servers, t=PARTITIONS)
    classic = CLASSIC | {"partition.assignment.strategy": strategy}
    group = [members.start(classic), members.start(classic)]
    seen = []
    changes = [(None, classic), (0, MODERN), (1, MODERN), (0, classic), (1, classic)]
    for step, (place, options) in enumerate(changes):
        produce(servers, "t", range(40 * step, 40 * step + 40), PARTITIONS)
        if place is not None:
            members.stop(group[place])
            group[place] = members.start(options)
        members.poll_until(lambda: members.share_all() and members.read.keys() >= {*range(40 * len(seen) + 40)})
        seen.append(kind(client))
    assert seen == ["CLASSIC", "CONSUMER", "CONSUMER", "CONSUMER", "CLASSIC"]
    assert sorted(members.read) == list(range(40 * len(changes))), "none is lost"
    twice = {number for number, times in members.read.items() if times > 1}
    assert twice <= members.commit_failed, "none is read again once it is committed"


@pytest.mark.kafka
def test_kafkas_consumer_joins_a_classic_group_and_its_tools_read_what_is_written(
    kafka_libs: Path, tmp_path: Path
) -> None:
    with TestBroker(OPTIONS | {"offsets.topic.num.partitions": "1"}, directory=tmp_path) as broker:
        servers = broker.bootstrap_servers
        client = admin(servers, t=PARTITIONS)
        members = Members(servers)
        classic = members.start(CLASSIC)
        members.poll_until(members.share_all)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(
                java, kafka_libs, "consumer.ConsoleConsumer", "--bootstrap-server", servers, "--topic", "t",
                "--group", "g", "--from-beginning", "--max-messages", "5", "--timeout-ms", "60000",
                "--command-property", "group.protocol=consumer",
            )  # fmt: skip
            members.poll_until(lambda: len(assigned(classic)) == PARTITIONS // 2)
            assert kind(client) == "CONSUMER"
            produce(servers, "t", range(40), PARTITIONS)
            members.poll_until(reading.done)
        members.poll_until(members.share_all)
        assert kind(client) == "CLASSIC"
        members.stop(classic)
    records = dumped(kafka_libs, tmp_path / "__consumer_offsets-0" / "00000000000000000000.log")
    described = [value["data"] for key, value in records if key["type"] == "5" and value is not None]
    assert any(each.get("classicMemberMetadata") for each in described)
    generations = [value["data"] for key, value in records if key["type"] == "2" and value is not None]
    assert any(each["leader"] is None and each["members"] for each in generations), "that of the downgrade"
    assert {*"235678"} <= {key["type"] for key, value in records if value is None}
