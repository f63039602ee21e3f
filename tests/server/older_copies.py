"""A cluster of processes whose directories are copied and put back, and the records acknowledged to its producer."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from struct import Struct

from cluster_processes import OttlaCluster, until
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "t"
_LENGTH_AT, _COUNT_AT, _OVERHEAD = 8, 57, 12
_INT = Struct(">i")


class Copied:
    """Brokers, some of them stopped, and the records acknowledged on one topic."""

    def __init__(self, cluster: OttlaCluster, place: Path) -> None:
        self.cluster = cluster
        self.copies = place / "copies"
        self.acknowledged: list[bytes] = []

    def create(self, replicas: int = 3, partitions: int = 1, required: int = 2) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})
        config = {"min.insync.replicas": str(required)}
        admin.create_topics([NewTopic(TOPIC, partitions, replicas, config=config)])[TOPIC].result(30)

    def produce(self, count: int) -> None:
        """Produce records until all are acknowledged, in batches so small that a copy may end between two of them."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers, "acks": "all", "linger.ms": 1})
        for number in range(count):
            value = b"%d" % (len(self.acknowledged) + number)
            producer.produce(TOPIC, value, partition=0, on_delivery=_raise)
            if number % 50 == 49:
                assert producer.flush(60) == 0
        assert producer.flush(60) == 0
        self.acknowledged += [b"%d" % (len(self.acknowledged) + number) for number in range(count)]

    def read(self) -> list[bytes | None]:
        """All records, once the partition has a leader: librdkafka asks for none and says that it is unknown."""
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": "g"})
        until(lambda: _is_led(consumer))
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[bytes | None] = []
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)
        while len(found) < end:
            found += [message.value() for message in consumer.consume(end - len(found), timeout=30)]
        consumer.close()
        return found

    def described(self, by: int) -> tuple[int, list[int]]:
        """Leader and in-sync set of the first partition, by one broker's Metadata."""
        admin = AdminClient({"bootstrap.servers": self.cluster.brokers[by].address})
        partition = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0]
        return partition.leader, sorted(partition.isrs)

    def all_in_sync(self) -> None:
        everybody = sorted(self.cluster.brokers)
        until(lambda: self.described(everybody[0])[1] == everybody)

    def stop(self, numbers: Iterable[int] | None = None) -> None:
        for number in numbers or self.cluster.brokers:
            assert self.cluster.brokers[number].stop() == 0

    def kill(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.kill()

    def start(self, numbers: Iterable[int] | None = None) -> None:
        for number in numbers or self.cluster.brokers:
            self.cluster.brokers[number].start()

    def copy(self, directory: Path) -> None:
        shutil.copytree(directory, self.copies / directory.name)

    def put_back(self, directory: Path) -> Path:
        """Put the copy in place of the directory, and keep the directory beside it."""
        newer = directory.with_name(directory.name + ".newer")
        directory.rename(newer)
        shutil.copytree(self.copies / directory.name, directory)
        return newer

    def age(self, number: int) -> int:
        """The age in a broker's directory."""
        return int((self.directory(number) / "age").read_bytes().split(b"\n")[1].removeprefix(b"age="))

    def stored_age(self, number: int) -> int:
        """The age of a broker's directory as the metadata store has it; -1 before it is first noted there."""
        said = (self.directory(number) / "meta.properties").read_text().splitlines()
        (name,) = [line.partition("=")[2] for line in said if line.startswith("directory.id=")]
        for file in self.copies.parent.rglob(f"brokers/{name}.age"):
            return int.from_bytes(file.read_bytes()[:8], "little")
        return -1

    def directory(self, number: int) -> Path:
        directory = self.cluster.brokers[number].directory
        assert directory is not None
        return directory

    def noted_as_committed(self, number: int) -> int:
        """The high watermark of the first partition in one broker's checkpoint; -1 if there is none."""
        path = self.directory(number) / "replication-offset-checkpoint"
        lines = path.read_text().splitlines() if path.exists() else []
        return next((int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} 0 ")), -1)

    def records_on_disk(self, directory: Path) -> int:
        """The number of records of the first partition in one stopped broker's segments."""
        count = 0
        for path in sorted((directory / f"{TOPIC}-0").glob("*.log")):
            body, at = path.read_bytes(), 0
            while at + _COUNT_AT + 4 <= len(body):
                count += _INT.unpack_from(body, at + _COUNT_AT)[0]
                at += _INT.unpack_from(body, at + _LENGTH_AT)[0] + _OVERHEAD
        return count


def _is_led(consumer: Consumer) -> bool:
    found = consumer.list_topics(TOPIC, timeout=30)
    return found.topics[TOPIC].partitions[0].leader in found.brokers


def _raise(error: object, message: object) -> None:
    assert error is None, error
