"""Apache Kafka's Java consumer with the consumer protocol, and Kafka's tools on our groups and files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.java_tools import java

from ottla.testing import TestBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
RECORDS = 40
OPTIONS = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "1",
}


def rows(said: str) -> list[dict[str, str]]:
    """The rows of a table by its headings."""
    lines = [line.split() for line in said.splitlines() if line.strip()]
    heads = next(number for number, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[heads], line, strict=False)) for line in lines[heads + 1 :]]


def read_all(libs: Path, broker: TestBroker, group: str, *topics: str) -> set[str]:
    said = java(
        libs, "consumer.ConsoleConsumer", "--bootstrap-server", broker.bootstrap_servers, *topics,
        "--group", group, "--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000",
        "--command-property", "group.protocol=consumer",
    )  # fmt: skip
    return set(said.split())


def test_java_reads_in_the_consumer_protocol_and_its_tools_show_the_group(kafka_libs: Path, tmp_path: Path) -> None:
    with TestBroker(OPTIONS, directory=tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce("t", str(number), partition=number % 4)
        assert producer.flush(30) == 0
        sent = {str(number) for number in range(RECORDS)}

        assert read_all(kafka_libs, broker, "g", "--topic", "t") == sent
        assert broker.requests("ConsumerGroupHeartbeat") >= 2 and broker.requests("JoinGroup") == 0
        assert read_all(kafka_libs, broker, "by-pattern", "--include", "t.*") == sent, "matched by the client"
        read_by_regex(broker)

        where = ("--bootstrap-server", broker.bootstrap_servers)
        (state,) = rows(java(kafka_libs, "consumer.group.ConsumerGroupCommand", *where, "--describe", "--group", "g",
                             "--state", "--verbose"))  # fmt: skip
        assert state["STATE"] == "Empty" and int(state["GROUP-EPOCH"]) >= 3
        offsets = rows(java(kafka_libs, "consumer.group.ConsumerGroupCommand", *where, "--describe", "--group", "g"))
        assert {row["PARTITION"]: row["CURRENT-OFFSET"] for row in offsets} == {str(each): "10" for each in range(4)}
        listed = java(kafka_libs, "GroupsCommand", *where, "--list")
        assert {tuple(line.split()) for line in listed.splitlines()[1:] if line} == {
            ("g", "Consumer", "consumer"),
            ("by-pattern", "Consumer", "consumer"),
            ("by-regex", "Consumer", "consumer"),
        }
        java(kafka_libs, "consumer.group.ConsumerGroupCommand", *where, "--delete", "--group", "g")
    types = dumped_types(kafka_libs, tmp_path / "__consumer_offsets-0" / "00000000000000000000.log")
    assert {1, 3, 5, 6, 7, 8, 16} <= types


def read_by_regex(broker: TestBroker) -> None:
    """Let the broker match a regular expression: librdkafka requests that, Java's console consumer does not."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "by-regex",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["^t.*"])
    assert len(consumer.consume(RECORDS, 60)) == RECORDS
    consumer.close()


def dumped_types(libs: Path, log: Path) -> set[int]:
    """The types of records that Kafka's dump tool reads in a log of the offsets topic."""
    dumped = java(libs, "DumpLogSegments", "--files", str(log), "--offsets-decoder")
    assert "could not be decoded" not in dumped and "Error" not in dumped
    keys = [json.loads(found) for found in re.findall(r" key: (\{.*?\}) payload:", dumped)]
    return {int(key["type"]) for key in keys}
