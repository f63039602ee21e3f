"""Apache Kafka's own Java clients 4.3.1, through its command-line tools."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from exchange import CODECS
from java_programs import java

pytestmark = [pytest.mark.compat, pytest.mark.kafka]


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    java("TopicCommand", "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", str(partitions))


@pytest.mark.parametrize("codec", CODECS)
def test_java_gets_back_what_it_wrote_with_every_codec(bootstrap: str, name: str, codec: str) -> None:
    lines = [f"key-{number}\tvalue {number} " + "z" * (number % 40) for number in range(200)]
    java(
        "ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", name, "--compression-codec", codec,
        "--reader-property", "parse.key=true", feed="\n".join(lines) + "\n",
    )  # fmt: skip
    got = java(
        "consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", name, "--from-beginning",
        "--max-messages", "200", "--timeout-ms", "20000", "--formatter-property", "print.key=true",
    )  # fmt: skip
    assert sorted(got.splitlines()) == sorted(lines)


def test_javas_verifiable_clients_agree(bootstrap: str, name: str) -> None:
    create(bootstrap, name, 3)
    sent = java(
        "VerifiableProducer", "--bootstrap-server", bootstrap, "--topic", name, "--max-messages", "300", "--acks", "-1"
    )
    events = [json.loads(line) for line in sent.splitlines() if line.startswith("{")]
    assert sum(event["name"] == "producer_send_success" for event in events) == 300
    got = java(
        "VerifiableConsumer", "--bootstrap-server", bootstrap, "--topic", name, "--group-id", name,
        "--max-messages", "300", "--reset-policy", "earliest", "--session-timeout", "6000",
    )  # fmt: skip
    events = [json.loads(line) for line in got.splitlines() if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 300
    assert all(event["success"] for event in events if event["name"] == "offsets_committed")


def test_java_administers_groups_and_their_offsets(bootstrap: str, name: str) -> None:
    create(bootstrap, name, 2)
    java("ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", name, feed="one\ntwo\nthree\n")
    java(
        "consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", name, "--group", name,
        "--from-beginning", "--max-messages", "3", "--timeout-ms", "20000",
    )  # fmt: skip
    groups = ("consumer.group.ConsumerGroupCommand", "--bootstrap-server", bootstrap)
    assert name in java(*groups, "--list").split()
    rows = [line.split() for line in java(*groups, "--describe", "--group", name).splitlines() if name in line]
    assert sum(int(row[3]) for row in rows if row[3].isdigit()) == 3
    java(*groups, "--group", name, "--topic", name, "--reset-offsets", "--to-earliest", "--execute")
    rows = [line.split() for line in java(*groups, "--describe", "--group", name).splitlines() if name in line]
    assert all(row[3] in ("0", "-") for row in rows)
    java(*groups, "--delete", "--group", name)
    assert name not in java(*groups, "--list").split()


def test_java_administers_topics_configs_and_records(bootstrap: str, name: str, tmp_path: Path) -> None:
    create(bootstrap, name, 2)
    server = ("--bootstrap-server", bootstrap)
    java("ConsoleProducer", *server, "--topic", name, "--reader-property", "parse.key=true", feed="k\tone\nk\ttwo\n")
    entity = ("--entity-type", "topics", "--entity-name", name)
    java("kafka.admin.ConfigCommand", *server, *entity, "--alter", "--add-config", "retention.ms=3600000")
    assert "retention.ms=3600000" in java("kafka.admin.ConfigCommand", *server, *entity, "--describe")
    java("TopicCommand", *server, "--alter", "--topic", name, "--partitions", "3")
    described = java("TopicCommand", *server, "--describe", "--topic", name)
    assert re.search(r"PartitionCount:\s*3", described)
    offsets = java("GetOffsetShell", *server, "--topic", name)
    counts = {int(line.split(":")[1]): int(line.split(":")[2]) for line in offsets.split()}
    assert sum(counts.values()) == 2
    [partition] = [number for number, count in counts.items() if count]
    wanted = tmp_path / "delete.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": name, "partition": partition, "offset": 1}], "version": 1}))
    java("DeleteRecordsCommand", *server, "--offset-json-file", str(wanted))
    assert f"{name}:{partition}:1" in java("GetOffsetShell", *server, "--topic", name, "--time", "earliest")
    assert name in java("LogDirsCommand", *server, "--describe", "--topic-list", name)
    assert "Produce(0)" in java("BrokerApiVersionsCommand", *server)
    java("TopicCommand", *server, "--delete", "--topic", name)
    assert name not in java("TopicCommand", *server, "--list").split()


def test_javas_performance_tools_count_what_they_wrote(bootstrap: str, name: str) -> None:
    create(bootstrap, name, 2)
    java(
        "ProducerPerformance", "--topic", name, "--num-records", "20000", "--record-size", "200", "--throughput", "-1",
        "--bootstrap-server", bootstrap,
    )  # fmt: skip
    got = java(
        "ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", name, "--num-records", "20000",
        "--timeout", "30000",
    )  # fmt: skip
    row = [part.strip() for part in got.strip().splitlines()[-1].split(",")]
    assert int(row[4]) >= 20000
