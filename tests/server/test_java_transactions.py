"""Apache Kafka's Java producer with its newest transaction protocol, and Kafka's tools on our coordinator and files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.java_tools import java

from ottla.testing import TestBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
RECORDS = 1_500


def transactions(libs: Path, broker: TestBroker, *arguments: str) -> list[list[str]]:
    """The rows that kafka-transactions prints, without the heading."""
    said = java(libs, "TransactionsCommand", "--bootstrap-server", broker.bootstrap_servers, *arguments)
    return [re.split(r"\s*\t", line.strip()) for line in said.splitlines()[1:] if line.strip()]


def test_a_java_producer_uses_an_epoch_for_each_transaction_and_its_tools_read_our_log(
    kafka_libs: Path, tmp_path: Path
) -> None:
    with TestBroker({"transaction.state.log.num.partitions": "1"}, directory=tmp_path) as broker:
        java(
            kafka_libs, "ProducerPerformance", "--bootstrap-server", broker.bootstrap_servers, "--topic", "t",
            "--num-records", str(RECORDS), "--record-size", "20", "--throughput", "1000",
            "--transactional-id", "perf", "--transaction-duration-ms", "100",
        )  # fmt: skip
        ends = broker.requests("EndTxn")
        assert ends > 1 and broker.requests("AddPartitionsToTxn") == 0, "brokers add partitions for it"
        (row,) = transactions(kafka_libs, broker, "describe", "--transactional-id", "perf")
        assert (row[1], int(row[3]), row[4]) == ("perf", ends, "CompleteCommit")
        read = java(
            kafka_libs, "consumer.ConsoleConsumer", "--bootstrap-server", broker.bootstrap_servers, "--topic", "t",
            "--from-beginning", "--isolation-level", "read_committed", "--max-messages", str(RECORDS),
            "--timeout-ms", "30000",
        )  # fmt: skip
        assert len(read.splitlines()) == RECORDS
    log = tmp_path / "__transaction_state-0" / "00000000000000000000.log"
    dumped = java(kafka_libs, "DumpLogSegments", "--files", str(log), "--transaction-log-decoder")
    values = [json.loads(found) for found in re.findall(r"payload: (\{.*\})", dumped)]
    states = [value["data"]["transactionStatus"] for value in values]
    assert states[:4] == [0, 1, 2, 4] and states.count(4) == ends
    assert {value["version"] for value in values} == {"1"}


def test_javas_tool_ends_a_transaction_that_hangs(kafka_libs: Path) -> None:
    with TestBroker({"transaction.state.log.num.partitions": "1"}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "open"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", b"never seen", partition=0)
        assert producer.flush(30) == 0
        assert [row[0] for row in transactions(kafka_libs, broker, "list")] == ["open"]
        (row,) = transactions(kafka_libs, broker, "describe-producers", "--topic", "t", "--partition", "0")
        assert row[-1] == "0"
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        reader = Consumer(settings | {"isolation.level": "read_committed"})
        java(
            kafka_libs, "TransactionsCommand", "--bootstrap-server", broker.bootstrap_servers, "abort",
            "--topic", "t", "--partition", "0", "--start-offset", "0",
        )  # fmt: skip
        assert reader.get_watermark_offsets(TopicPartition("t", 0), 30) == (0, 2)
        (row,) = transactions(kafka_libs, broker, "describe-producers", "--topic", "t", "--partition", "0")
        assert row[-1] == "None"
        reader.close()
