"""A full disk refuses writes with a storage error and nothing more; they resume when there is room again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.server.processes import OttlaProcess

pytestmark = pytest.mark.root


@contextmanager
def mounted(place: Path, options: str) -> Iterator[Path]:
    """A file system in memory."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "ottla-test", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    with mounted(tmp_path / "disk", "size=24m") as place:
        yield place


@pytest.fixture
def disk_of_few_files(tmp_path: Path) -> Iterator[Path]:
    """A file system with much room and 100 inodes."""
    with mounted(tmp_path / "disk", "size=256m,nr_inodes=100") as place:
        yield place


def fill(producer: Producer, acknowledged: dict[int, int]) -> KafkaError:
    """Write until a record is refused; return the error."""
    refused: list[KafkaError] = []
    number = len(acknowledged)

    def delivered(error, message) -> None:
        if error is None:
            acknowledged[int.from_bytes(message.value()[:8], "big")] = message.offset()
        else:
            refused.append(error)

    deadline = time.monotonic() + 300
    while not refused:
        assert time.monotonic() < deadline, "the disk never filled up"
        producer.produce("t", number.to_bytes(8, "big") + bytes(100_000), on_delivery=delivered)
        number += 1
        producer.poll(0.01)
    producer.flush(30)
    return refused[0]


def doctor(broker: OttlaProcess) -> tuple[bool, str]:
    asked = [sys.executable, "-m", "ottla", "doctor", "-b", broker.address]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode == 0, done.stdout


def test_a_full_disk_refuses_writes_serves_reads_and_recovers(small_disk: Path):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    acknowledged: dict[int, int] = {}
    with OttlaProcess(small_disk / "data", "--set", "log.segment.bytes=2097152") as broker:
        settings = {"bootstrap.servers": broker.address}
        producer = Producer({**settings, "retries": 0, "linger.ms": 0, "message.timeout.ms": 5000})
        error = fill(producer, acknowledged)
        assert error.code() in (KafkaError.KAFKA_STORAGE_ERROR, KafkaError._MSG_TIMED_OUT)
        assert broker.process is not None and broker.process.poll() is None
        assert len(acknowledged) > 20
        full = f"WARNING ottla.replicas the log directory {small_disk / 'data'} is full"
        assert [line for line in broker.log().splitlines() if full in line], broker.log()
        healthy, told = doctor(broker)
        assert not healthy
        assert f"WRONG broker 1: log directory {small_disk / 'data'} is full or nearly so" in told

        consumer = Consumer({**settings, "group.id": "g", "enable.auto.commit": False})
        consumer.assign([TopicPartition("t", 0, 0)])
        seen: set[int] = set()
        deadline = time.monotonic() + 300
        while not set(acknowledged) <= seen:
            assert time.monotonic() < deadline, "reads stand still on a full disk"
            for message in consumer.consume(100, timeout=1):
                assert message.error() is None
                seen.add(int.from_bytes(message.value()[:8], "big"))

        ballast.unlink()
        deadline = time.monotonic() + 300
        while True:
            outcome: list[KafkaError | None] = []
            producer.produce(
                "t", b"\xff" * 8 + b"after", on_delivery=lambda error, _, outcome=outcome: outcome.append(error)
            )
            producer.flush(30)
            if outcome == [None]:
                break
            assert time.monotonic() < deadline, f"writes do not resume: {outcome}"
        consumer.close()
        deadline = time.monotonic() + 300
        while "has room again" not in broker.log():
            assert time.monotonic() < deadline, broker.log()
            time.sleep(0.1)
        assert doctor(broker)[0]

        broker.kill()
        broker.start()
        after = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "enable.auto.commit": False})
        after.assign([TopicPartition("t", 0, 0)])
        found: dict[int, int] = {}
        deadline = time.monotonic() + 300
        while not set(acknowledged) <= set(found):
            missing = sorted(set(acknowledged) - set(found))
            assert time.monotonic() < deadline, f"acknowledged records are missing: {missing}; {broker.log()}"
            for message in after.consume(100, timeout=1):
                if message.error() is not None:
                    raise KafkaException(message.error())
                found[int.from_bytes(message.value()[:8], "big")] = message.offset()
        assert all(found[number] == offset for number, offset in acknowledged.items())
        after.close()


def test_doctor_sees_that_a_log_directory_takes_no_more_files(disk_of_few_files: Path):
    with OttlaProcess(disk_of_few_files / "data") as broker:
        healthy, told = doctor(broker)
        assert healthy, told
        with pytest.raises(OSError, match="No space left"):
            for number in range(100):
                (disk_of_few_files / str(number)).touch()
        healthy, told = doctor(broker)
        assert not healthy
        assert f"WRONG broker 1: log directory {disk_of_few_files / 'data'}: there is room for bytes" in told, told
        assert "inodes" in told
        for number in range(100):
            (disk_of_few_files / str(number)).unlink(missing_ok=True)
        healthy, told = doctor(broker)
        assert healthy, told
