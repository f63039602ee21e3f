"""Unmodified clients beside three brokers: a topic on all of them, a thread that writes, and a reader of everything."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

REPLICATED = {"min.insync.replicas": "2"}


def create(cluster, name, partitions=1):
    """Make a topic with a replica on each broker, of which two must have a record."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=3, config=REPLICATED)
    for future in admin.create_topics([topic]).values():
        future.result(60)
    return admin


def described(admin, name, index=0):
    """(leader, sorted in-sync set) by Metadata."""
    partition = admin.list_topics(name, timeout=60).topics[name].partitions[index]
    return partition.leader, sorted(partition.isrs)


class Writing:
    """A thread that produces numbers without end, idempotent, acks=all; notes when each was acknowledged."""

    def __init__(self, cluster, topic):
        self.acknowledged = []
        self.times = []
        self.errors = []
        self._going = True
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "delivery.timeout.ms": 60000,
            }
        )
        self._topic = topic
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number = 0
        while self._going:
            self._producer.produce(self._topic, str(number), on_delivery=self._told(number), partition=0)
            number += 1
            self._producer.poll(0.002)
        self._producer.flush(60)

    def _told(self, number):
        def told(error, message):
            if error is not None:
                self.errors.append(error)
            else:
                self.acknowledged.append(number)
                self.times.append(time.monotonic())

        return told

    def stop(self):
        self._going = False
        self._thread.join()


def read_all(cluster, topic, group="reader"):
    """The numbers in a topic's only partition, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        found.append(int(message.value()))
    consumer.close()
    return found
