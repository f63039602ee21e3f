"""After kill -9 at any moment, every record acknowledged with acks=all is there once, and committed offsets stay."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.server.processes import OttlaProcess

KILLS = int(os.environ.get("OTTLA_KILLS", "5"))


class Load:
    """An idempotent producer that writes numbered records in a thread and notes which were acknowledged, and where."""

    def __init__(self, address: str, partitions: int) -> None:
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failed: list[str] = []
        self._partitions = partitions
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            for _ in range(50 if len(self._producer) < 20_000 else 0):
                self._producer.produce(
                    "load",
                    number.to_bytes(8, "big") + b"x" * (number % 500),
                    partition=number % self._partitions,
                    on_delivery=lambda error, message, number=number: self._delivered(error, message, number),
                )
                number += 1
            self._producer.poll(0.005)
        self._left = self._producer.flush(60)

    def _delivered(self, error, message, number: int) -> None:
        if error is None:
            self.acknowledged[number] = (message.partition(), message.offset())
        else:
            self.failed.append(str(error))

    def wait_for_more(self, records: int) -> None:
        goal = len(self.acknowledged) + records
        deadline = time.monotonic() + 300
        while len(self.acknowledged) < goal:
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            self._stop.wait(0.005)

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._left == 0


def read_all(address: str, partitions: int) -> dict[tuple[int, int], int]:
    """The number of each record, by (partition, offset)."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False})
    ends = {}
    for partition in range(partitions):
        first, end = consumer.get_watermark_offsets(TopicPartition("load", partition), timeout=60)
        assert first == 0
        ends[partition] = end
    consumer.assign([TopicPartition("load", partition, 0) for partition in range(partitions)])
    found = {}
    deadline = time.monotonic() + 300
    while len(found) < sum(ends.values()):
        assert time.monotonic() < deadline, f"read {len(found)} of {sum(ends.values())} records"
        for message in consumer.consume(10_000, timeout=1):
            assert message.error() is None
            value = message.value()
            number = int.from_bytes(value[:8], "big")
            assert value[8:] == b"x" * (number % 500)
            found[(message.partition(), message.offset())] = number
    consumer.close()
    return found


def test_nothing_acknowledged_is_lost_or_doubled_however_often_the_broker_is_killed(tmp_path: Path):
    draw = random.Random(7)
    broker = OttlaProcess(tmp_path, "--set", "log.segment.bytes=1048576")
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        (created,) = admin.create_topics([NewTopic("load", 3, 1)]).values()
        created.result(30)
        load = Load(broker.address, 3)
        try:
            for _ in range(KILLS):
                load.wait_for_more(draw.randrange(1, 3000))
                broker.kill()
                broker.start()
            load.wait_for_more(100)
        finally:
            load.end()
        assert load.failed == []
        found = read_all(broker.address, 3)
        assert {found.get(place) for place in load.acknowledged.values()} == set(load.acknowledged)
        assert {number: found.get(place) for number, place in load.acknowledged.items()} == {
            number: number for number in load.acknowledged
        }
        assert len(set(found.values())) == len(found), "a record is there twice"


def test_a_committed_offset_survives_a_kill(tmp_path: Path):
    with OttlaProcess(tmp_path, "--set", "group.initial.rebalance.delay.ms=0") as broker:
        settings = {"bootstrap.servers": broker.address, "group.id": "g", "enable.auto.commit": False}
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("t", b"v")
        assert producer.flush(30) == 0
        consumer = Consumer(settings)
        for offset in range(1, 20):
            consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
        broker.kill()
        broker.start()
        (held,) = consumer.committed([TopicPartition("t", 0)], timeout=30)
        assert held.offset == 19
        consumer.close()


def test_a_second_broker_on_the_directory_is_refused(tmp_path: Path):
    with OttlaProcess(tmp_path), pytest.raises(RuntimeError, match="in use"):
        OttlaProcess(tmp_path).start()


def test_a_directory_that_is_not_ours_is_refused(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RuntimeError, match=r"not empty.*thesis\.tex"):
        OttlaProcess(tmp_path).start()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thesis.tex"]


def test_data_without_its_metadata_is_refused_and_kept(tmp_path: Path):
    import shutil

    with OttlaProcess(tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("t", b"v")
        assert producer.flush(30) == 0
    shutil.rmtree(tmp_path / "metadata")
    with pytest.raises(RuntimeError, match="Restore"):
        OttlaProcess(tmp_path).start()
    assert (tmp_path / "t-0").is_dir()


def test_sigterm_stops_cleanly_and_the_port_is_kept(tmp_path: Path):
    broker = OttlaProcess(tmp_path).start()
    first = broker.address
    assert broker.stop() == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    broker.start()
    assert broker.address == first
    assert broker.stop() == 0
