"""Real brokers with several log directories, one of which fails while the other goes on."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_processes import until
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.admin import KafkaAdminClient
from processes import OttlaProcess

from ottla.client.admin.admin import NewTopic
from ottla.client.blocking.admin import Admin

PARTITIONS = 4
_SHUT_DOWN, _WITHOUT_A_FLUSH = 0x8004587D, 2
"""EXT4_IOC_SHUTDOWN: afterwards every read and write of the file system is an I/O error."""


def properties(folder: Path, *directories: Path, more: str = "") -> str:
    path = folder / "server.properties"
    path.write_text(f"node.id=1\nlog.dirs={','.join(map(str, directories))}\n{more}\n")
    return str(path)


def create(broker: OttlaProcess) -> None:
    with Admin(broker.address) as admin:
        created = admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"]
        assert not isinstance(created, Exception)


def produced(broker: OttlaProcess, *partitions: int) -> list[int]:
    """Produce one record to each partition; return the errors, 0 for none."""
    settings = {"bootstrap.servers": broker.address, "message.timeout.ms": 3000, "linger.ms": 0, "acks": "all"}
    producer = Producer(settings)
    outcome: dict[int, int] = {}
    for partition in partitions:
        producer.produce(
            "t",
            b"%d" % partition,
            partition=partition,
            on_delivery=lambda error, _, partition=partition: outcome.update(
                {partition: 0 if error is None else error.code()}
            ),
        )
    producer.flush(60)
    return [outcome[partition] for partition in partitions]


def read(broker: OttlaProcess, *partitions: int, count: int) -> list[int]:
    """Read at least `count` records of each partition; return the numbers."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", partition, 0) for partition in partitions])
    seen = dict.fromkeys(partitions, 0)

    def all_there() -> bool:
        for message in consumer.consume(100, timeout=0.2):
            assert message.error() is None
            seen[message.partition()] += 1
        return min(seen.values()) >= count

    until(all_there)
    consumer.close()
    return list(seen.values())


def directories(broker: OttlaProcess) -> dict[str, dict[str, Any]]:
    """The log directories as kafka-python describes them."""
    client = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        (described,) = client.describe_log_dirs()
    finally:
        client.close()
    return {each["log_dir"]: each for each in described["log_dirs"]}


def held(described: dict[str, Any]) -> list[int]:
    return sorted(one["partition_index"] for topic in described["topics"] for one in topic["partitions"])


def test_a_configuration_with_several_directories_is_served_and_survives_a_kill(tmp_path: Path):
    places = [tmp_path / "a", tmp_path / "b"]
    with OttlaProcess(None, "--config", properties(tmp_path, *places)) as broker:
        create(broker)
        assert produced(broker, *range(PARTITIONS)) == [0] * PARTITIONS
        found = directories(broker)
        assert [held(found[str(place)]) for place in places] == [[0, 2], [1, 3]]
        assert all(each["error_code"] == 0 and each["total_bytes"] > each["usable_bytes"] for each in found.values())
        other = OttlaProcess(places[1])
        with pytest.raises(RuntimeError, match=rf"{places[1]} is in use"):
            other.start()
        other.errors.close()
        broker.kill()
        broker.start()
        assert read(broker, *range(PARTITIONS), count=1) == [1] * PARTITIONS
        assert produced(broker, *range(PARTITIONS)) == [0] * PARTITIONS
        assert broker.stop() == 0
    assert all((place / ".kafka_cleanshutdown").exists() and (place / ".lock").exists() for place in places)


def test_a_directory_inside_another_is_refused(tmp_path: Path):
    broker = OttlaProcess(None, "--config", properties(tmp_path, tmp_path / "a", tmp_path / "a/inside"))
    with pytest.raises(RuntimeError, match="each must be a directory of its own"):
        broker.start()
    broker.errors.close()


def reassign(broker: OttlaProcess, file: Path, *options: str) -> str:
    """Run kafka-reassign-partitions; return its output."""
    arguments = ["--bootstrap-server", broker.address, "--reassignment-json-file", str(file), *options]
    words = [sys.executable, "-m", "ottla", "kafka-reassign-partitions", *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_a_replica_is_moved_under_load_and_over_a_kill(tmp_path: Path):
    """The move is slow until the kill, so that the copy is interrupted in its middle."""
    places = [tmp_path / "a", tmp_path / "b"]
    slow = "replica.alter.log.dirs.io.max.bytes.per.second=50000"
    with OttlaProcess(None, "--config", properties(tmp_path, *places, more=slow)) as broker:
        create(broker)
        assert (places[0] / "t-0").is_dir()
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0, "enable.idempotence": True})
        acknowledged: list[int] = []

        def send(count: int) -> None:
            for _ in range(count):
                producer.produce("t", bytes(20_000), partition=0, on_delivery=noted)
            assert producer.flush(30) == 0

        def noted(error: object, message: Any) -> None:
            assert error is None
            acknowledged.append(message.offset())

        send(100)
        wanted = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [str(places[1])]}
        file = tmp_path / "move.json"
        file.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
        assert "Successfully started moving log directory" in reassign(broker, file, "--execute")
        until(lambda: any(one["is_future_key"] and one["partition_size"] > 0 for one in parts(broker, places[1])))
        send(5)
        broker.kill()
        properties(tmp_path, *places)
        broker.start()
        until(lambda: send(1) or (places[1] / "t-0").is_dir())
        assert "completed successfully" in reassign(broker, file, "--verify")
        send(5)
        assert acknowledged == list(range(len(acknowledged)))
        broker.kill()
        broker.start()
        assert read(broker, 0, count=len(acknowledged)) == [len(acknowledged)]
        until(lambda: not list(places[0].glob("t-0*")))
        assert broker.stop() == 0


def parts(broker: OttlaProcess, place: Path) -> list[dict[str, Any]]:
    return [one for topic in directories(broker)[str(place)]["topics"] for one in topic["partitions"]]


class Disk:
    """A file system of its own that can be broken."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "disk"
        self._image = folder / "image"
        self.place.mkdir()
        self._image.write_bytes(b"")
        os.truncate(self._image, 48 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self._image], check=True)
        self.mount()

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", self._image, self.place], check=True)

    def fail(self) -> None:
        descriptor = os.open(self.place, os.O_RDONLY)
        fcntl.ioctl(descriptor, _SHUT_DOWN, struct.pack("I", _WITHOUT_A_FLUSH))
        os.close(descriptor)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", self.place], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    try:
        yield disk
    finally:
        disk.unmount()


@pytest.mark.root
def test_one_disk_fails_and_the_other_goes_on(tmp_path: Path, disk: Disk):
    places = [tmp_path / "a", disk.place / "b"]
    with OttlaProcess(None, "--config", properties(tmp_path, *places)) as broker:
        create(broker)
        assert produced(broker, *range(PARTITIONS)) == [0] * PARTITIONS

        disk.fail()
        assert produced(broker, 0, 2) == [0, 0]
        assert produced(broker, 1) != [0]
        until(lambda: directories(broker)[str(places[1])]["error_code"] == 56)
        assert held(directories(broker)[str(places[0])]) == [0, 2]
        assert broker.process is not None and broker.process.poll() is None
        assert f"{places[1]} failed and is offline" in broker.log()
        assert broker.stop() == 0

        broker.start()  # the disk still fails
        assert directories(broker)[str(places[1])]["error_code"] == 56
        assert held(directories(broker)[str(places[0])]) == [0, 2]
        assert read(broker, 0, 2, count=2) == [2, 2]
        assert produced(broker, 0, 2) == [0, 0]
        assert sorted(path.name for path in places[0].glob("t-*")) == ["t-0", "t-2"]  # none made anew, empty
        assert broker.stop() == 0

        disk.unmount()
        disk.mount()
        broker.start()
        assert read(broker, 1, 3, count=1) == [1, 1]
        assert produced(broker, *range(PARTITIONS)) == [0] * PARTITIONS
        assert broker.stop() == 0


@pytest.mark.root
def test_the_disk_with_the_metadata_takes_the_broker_with_it(tmp_path: Path, disk: Disk):
    places = [disk.place / "a", tmp_path / "b"]
    with OttlaProcess(None, "--config", properties(tmp_path, *places)) as broker:
        create(broker)
        disk.fail()
        produced(broker, 0)
        assert broker.process is not None
        assert broker.process.wait(timeout=30) == 1
        assert str(places[0]) in broker.log()
