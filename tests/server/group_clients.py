"""Groups of librdkafka's consumers beside a broker with short heartbeats: topics, records, and who reads what."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

OPTIONS = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
}


def admin(servers: str, **topics: int) -> AdminClient:
    """A client for administration; it makes topics with these numbers of partitions."""
    client = AdminClient({"bootstrap.servers": servers})
    wanted = [NewTopic(name, partitions, -1) for name, partitions in topics.items()]
    for future in client.create_topics(wanted).values() if wanted else []:
        future.result(30)
    return client


def assigned(consumer: Consumer) -> set[tuple[str, int]]:
    return {(place.topic, place.partition) for place in consumer.assignment()}


def produce(servers: str, topic: str, numbers: range, partitions: int) -> None:
    """Write numbers, each to the partition of its remainder."""
    producer = Producer({"bootstrap.servers": servers})
    for number in numbers:
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(60) == 0
