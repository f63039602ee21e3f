"""A data directory is one unit: a complete copy works elsewhere, and one without its metadata is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.server.broker_server import CannotStart
from ottla.testing import TestBroker

TOPIC, GROUP = "orders", "billing"


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """The copy of a directory with three records, one of them consumed by a group, and a configured topic."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    with TestBroker({"offsets.topic.num.partitions": "2"}, directory=original) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for value in (b"one", b"two", b"three"):
            producer.produce(TOPIC, value)
        assert producer.flush(60) == 0
        consumer = a_consumer(broker)
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        consumer.close()
    shutil.copytree(original, copy)
    shutil.rmtree(original)
    return copy


def a_consumer(broker: TestBroker) -> Consumer:
    return Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP, "auto.offset.reset": "earliest"})


def test_a_copied_directory_goes_on_with_topics_records_and_groups(backup: Path) -> None:
    with TestBroker(directory=backup) as broker:
        consumer = a_consumer(broker)
        consumer.subscribe([TOPIC])
        values = [message.value() for message in consumer.consume(2, 20)]
        consumer.close()
    assert values == [b"two", b"three"]


def test_logs_without_their_metadata_are_refused(backup: Path) -> None:
    shutil.rmtree(backup / "metadata")
    with pytest.raises(CannotStart, match="the metadata that says what it is is missing"):
        TestBroker(directory=backup).start()
    assert (backup / f"{TOPIC}-0" / "00000000000000000000.log").stat().st_size > 0


def test_a_directory_of_another_broker_is_refused(backup: Path) -> None:
    with pytest.raises(CannotStart, match=r"says node\.id 1, and this broker has"):
        TestBroker({"node.id": "7"}, directory=backup).start()


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear reader")
    with pytest.raises(CannotStart, match=r"letter\.txt"):
        TestBroker(directory=tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
