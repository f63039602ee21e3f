"""Compaction in the real process: the last value of each key stays, read by a real client, and a kill loses nothing."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.server.processes import OttlaProcess

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def read(address: str, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "r", "enable.auto.commit": False,
                         "enable.partition.eof": True})  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    deadline = time.monotonic() + 300
    while True:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append((message.offset(), message.key(), message.value()))
        elif message is not None:
            break
    consumer.close()
    return found


def test_the_last_value_of_each_key_stays_at_its_offset(tmp_path: Path):
    last: dict[bytes, tuple[int, bytes]] = {}
    with OttlaProcess(tmp_path, "--set", "log.cleaner.backoff.ms=100") as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        (created,) = admin.create_topics([NewTopic("c", 1, 1, config=COMPACTED)]).values()
        created.result(30)
        producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})

        def delivered(error, message) -> None:
            assert error is None
            last[message.key()] = (message.offset(), message.value())

        for number in range(40_000):
            key = b"k%d" % (number % 100)
            producer.produce("c", b"v%d" % number + bytes(200), key=key, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(60) == 0

        deadline = time.monotonic() + 300
        while True:
            found = read(broker.address, "c")
            if len(found) < 15_000:
                break
            assert time.monotonic() < deadline, f"{len(found)} records are still there"
        by_key = {key: (offset, value) for offset, key, value in found}
        assert by_key == last
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})

        broker.kill()
        broker.start()
        after = read(broker.address, "c")
        assert {key: (offset, value) for offset, key, value in after} == last


def test_a_record_without_a_key_is_refused_on_a_compacted_topic(tmp_path: Path):
    with OttlaProcess(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        (created,) = admin.create_topics([NewTopic("c", 1, 1, config=COMPACTED)]).values()
        created.result(30)
        outcome = []
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("c", b"no key", on_delivery=lambda error, _: outcome.append(error))
        producer.flush(30)
        assert outcome[0].name() == "INVALID_RECORD"
