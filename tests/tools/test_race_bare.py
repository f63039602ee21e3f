"""The bare server of the race takes what a real client writes, and hands it out again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.brokers import BareBroker
from bench.rig import Rig
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

RECORDS = 5_000


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.stop()


def written(rig: Rig, topic: str, acks: str, failed: list[KafkaError]) -> None:
    producer = Producer({"bootstrap.servers": rig.broker("bare").address, "acks": acks, "batch.num.messages": 100})
    for number in range(RECORDS):
        producer.produce(
            topic, b"%d" % number, partition=number % 2, on_delivery=lambda error, _: error and failed.append(error)
        )
    assert producer.flush(60) == 0


def read(rig: Rig, topic: str, partition: int, count: int) -> list[tuple[int, bytes]]:
    # Its close looks for a coordinator for the time of a session, and there is none.
    consumer = Consumer({"bootstrap.servers": rig.broker("bare").address, "group.id": "g", "session.timeout.ms": 200})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: list[tuple[int, bytes]] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), 60)
        assert messages, f"{len(found)} of {count} records came"
        found += [(message.offset(), message.value()) for message in messages]
    consumer.close()
    return found


@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_client_reads_what_it_has_written(rig: Rig, acks: str) -> None:
    failed: list[KafkaError] = []
    with rig.topic("bare", partitions=2) as topic:
        written(rig, topic, acks, failed)
        assert not failed
        for partition in (0, 1):
            values = [b"%d" % number for number in range(partition, RECORDS, 2)]
            assert read(rig, topic, partition, RECORDS // 2) == list(enumerate(values))
    broker = rig.broker("bare")
    assert isinstance(broker, BareBroker)
    assert list((broker.folder / "data").iterdir()) == []  # the topic is deleted, with its files
