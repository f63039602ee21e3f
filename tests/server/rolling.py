"""Load on a cluster whose brokers are stopped and started one after the other, and checks of the result."""

from __future__ import annotations

import threading
from collections import Counter

from cluster_processes import OttlaCluster, until
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 6
MEMBERS = 2


class Load:
    """An idempotent producer of numbers and a group that reads them, both with librdkafka's default retries.

    A context manager; call `check` after the restarts.
    """

    def __init__(self, cluster: OttlaCluster, topic: str = "rolled") -> None:
        self._servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}  # brokers go away at times
        self.topic = topic
        self.admin = AdminClient(self._servers)
        self.acknowledged: list[int] = []
        self.faults: list[str] = []
        self.seen: Counter[int] = Counter()
        self._assignments = 0
        self._producing, self._reading = True, True
        self._threads = [threading.Thread(target=self._produce)]
        self._threads += [threading.Thread(target=self._read) for _ in range(MEMBERS)]

    def __enter__(self) -> Load:
        settings = {"min.insync.replicas": "2"}
        wanted = NewTopic(self.topic, num_partitions=PARTITIONS, replication_factor=3, config=settings)
        self.admin.create_topics([wanted])[self.topic].result(30)
        for thread in self._threads:
            thread.start()
        until(lambda: self.seen and self._assignments >= MEMBERS)
        return self

    def __exit__(self, *exception: object) -> None:
        self._producing = self._reading = False
        for thread in self._threads:
            thread.join()

    def in_sync(self) -> bool:
        """True if every replica of every topic is in sync."""
        topics = self.admin.list_topics(timeout=30).topics.values()
        return all(len(each.isrs) == len(each.replicas) for topic in topics for each in topic.partitions.values())

    def goes_on(self, count: int = 300) -> None:
        """Wait for as many more acknowledged records, and for the group to have read them."""
        enough = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= enough and len(self.seen) >= enough)

    def check(self) -> int:
        """Check that nothing failed, was lost or doubled, in the log and in the group; return the number of records."""
        self._producing = False
        self._threads[0].join()
        wanted = set(self.acknowledged)
        until(lambda: self.faults or wanted <= self.seen.keys())
        assert not self.faults, self.faults[:5]
        assert max(self.seen.values()) == 1, "the group read a record twice"
        for partition in range(PARTITIONS):
            found = self._whole(partition)
            assert found == sorted(set(found)), f"partition {partition}: not once each and in order"
            wanted.difference_update(found)
        assert not wanted, f"{len(wanted)} acknowledged records are lost"
        return len(self.acknowledged)

    def _produce(self) -> None:
        producer = Producer({**self._servers, "enable.idempotence": True, "linger.ms": 1})
        number = 0
        while self._producing:
            producer.produce(self.topic, str(number), partition=number % PARTITIONS, on_delivery=self._delivered)
            number += 1
            producer.poll(0.002)
        if producer.flush(60):
            self.faults.append("records were not answered")

    def _delivered(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self.faults.append(f"produce: {error}")
        else:
            self.acknowledged.append(int(message.value()))  # type: ignore[attr-defined]

    def _read(self) -> None:
        consumer = Consumer({**self._servers, "group.id": "rolled", "auto.offset.reset": "earliest"})
        consumer.subscribe([self.topic], on_assign=self._assigned)
        while self._reading:
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                self.faults.append(f"consume: {message.error()}")
            else:
                self.seen[int(message.value())] += 1
        consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._assignments += 1

    def _whole(self, partition: int) -> list[int]:
        """All numbers in the partition's log."""
        consumer = Consumer({**self._servers, "group.id": "checks", "enable.partition.eof": True})
        consumer.assign([TopicPartition(self.topic, partition, 0)])
        found: list[int] = []
        while True:
            message = consumer.poll(30)
            assert message is not None, "the partition cannot be read"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                consumer.close()
                return found
            found.append(int(message.value()))
