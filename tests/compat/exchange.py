"""The values that the client tests write and expect to read back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import confluent_kafka
import reaching

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EPOCH_MS = 1_700_000_000_000
BROKERS = int(os.environ.get("OTTLA_COMPAT_BROKERS", "1"))
"""The number of brokers at the given address; a topic has a replica on each."""


def values(count: int, *, prefix: str = "value") -> list[bytes]:
    """Compressible values, each different."""
    return [f"{prefix}-{number:05d}-".encode() + b"abc" * (number % 50) for number in range(count)]


def until(
    done: Callable[[], object], *, what: str, within_s: float = 300.0, step: Callable[[], object] | None = None
) -> None:
    """Call `step` (or let time pass) until `done`; raise an AssertionError that names the missing event."""
    deadline = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        if step is None:
            time.sleep(0.02)
        else:
            step()


def by_librdkafka(bootstrap: str, topic: str) -> list[bytes]:
    """The values of all committed records of a topic's only partition."""
    consumer = confluent_kafka.Consumer(
        {
            **reaching.librdkafka(bootstrap),
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(60)
        assert message is not None, "neither a record nor the end of the partition"
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            consumer.close()
            return values
        values.append(message.value())
