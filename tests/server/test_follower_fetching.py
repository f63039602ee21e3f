"""Three broker processes in three racks: an unmodified consumer that names its rack reads from the broker there."""

from __future__ import annotations

import os
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_processes import OttlaCluster, until
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.ports import free_port

from ottla.config.broker_checks import RACK_AWARE

RECORDS, SIZE = 500, 1000


@pytest.fixture
def ports() -> dict[int, int]:
    """The port of each broker's metrics."""
    return {number: free_port() for number in (1, 2, 3)}


@pytest.fixture
def cluster(tmp_path: Path, ports: dict[int, int]) -> Iterator[OttlaCluster]:
    made = OttlaCluster(tmp_path, 3, "--set", f"replica.selector.class={RACK_AWARE}")
    for number, broker in made.brokers.items():
        broker.options += ("--set", f"broker.rack=rack-{number}", "--http-port", str(ports[number]))
    with made:
        yield made


def sent_by(port: int, topic: str) -> int:
    """Bytes of the topic that a broker has sent in fetch answers."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = re.search(rf'^kafka_server_brokertopicmetrics_bytesout_total{{topic="{topic}"}} (\d+)', text, re.MULTILINE)
    return int(found[1]) if found else 0


def produce(cluster: OttlaCluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    for _ in range(count):
        producer.produce(topic, os.urandom(SIZE), partition=0)
    assert producer.flush(30) == 0


def test_the_bytes_come_from_the_follower_in_the_consumers_rack_and_from_the_leader_when_it_is_gone(
    cluster: OttlaCluster, ports: dict[int, int]
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2, 3]])])["t"].result(60)
    until(lambda: len(admin.list_topics("t", timeout=60).topics["t"].partitions[0].isrs) == 3)
    produce(cluster, "t", RECORDS)
    leader_before, other_before = sent_by(ports[1], "t"), sent_by(ports[3], "t")
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "near",
            "client.rack": "rack-2",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    read = []

    def take(count: int) -> None:
        def step() -> bool:
            for message in consumer.consume(count - len(read), 0.2):
                assert message.error() is None, message.error()
                read.append(message.offset())
            return len(read) >= count

        until(step)

    take(RECORDS)
    assert sent_by(ports[2], "t") >= RECORDS * SIZE
    assert (sent_by(ports[1], "t"), sent_by(ports[3], "t")) == (leader_before, other_before)

    cluster.brokers[2].kill()
    produce(cluster, "t", RECORDS)
    take(2 * RECORDS)
    assert read == list(range(2 * RECORDS))
    consumer.close()
