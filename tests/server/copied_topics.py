"""Topics that are copied in transactions while brokers are killed: made, filled and read by librdkafka."""

from __future__ import annotations

import time
from pathlib import Path

from cluster_processes import OttlaCluster
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

RECORDS = 400
PER_TRANSACTION = 40
PARTITIONS = 2
AWAY_S = 3.0
"""The time that a killed broker stays away."""
OPTIONS = (
    "replica.lag.time.max.ms=5000",
    "transaction.state.log.num.partitions=3",
    "offsets.topic.num.partitions=3",
)


def three_brokers(directory: Path) -> OttlaCluster:
    """A cluster in which each broker leads a part of the internal topics."""
    return OttlaCluster(directory, 3, *(word for option in OPTIONS for word in ("--set", option)))


def create(servers: str, *names: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(name, num_partitions=PARTITIONS, replication_factor=replicas) for name in names]
    for future in admin.create_topics(topics).values():
        future.result(30)


def fill(servers: str, topic: str) -> dict[int, list[bytes]]:
    """Write all records; return the values by partition."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    sent: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    for number in range(RECORDS):
        value = str(number).encode()
        producer.produce(topic, value, partition=number % PARTITIONS)
        sent[number % PARTITIONS].append(value)
    assert producer.flush(60) == 0
    return sent


def read(servers: str, topic: str, *, isolation: str = "read_committed") -> dict[int, list[bytes]]:
    """All values of a topic that the isolation level shows."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    ended: set[int] = set()
    until = time.monotonic() + 300
    while len(ended) < PARTITIONS:
        assert time.monotonic() < until, (found, ended)
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            ended.add(message.partition())
        else:
            found[message.partition()].append(message.value())
    consumer.close()
    return found
