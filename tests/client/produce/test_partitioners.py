"""Keys land where the Java client and librdkafka put them."""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any

import pytest

from ottla.client.produce.partitioners import (
    PARTITIONERS,
    consistent_partitioner,
    consistent_random_partitioner,
    murmur2,
    murmur2_partitioner,
)


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


def test_keyed_records_go_to_the_positive_hash_modulo_partitions() -> None:
    assert murmur2_partitioner(b"foobar", [0], 7) == (-790332482 & 0x7FFFFFFF) % 7
    assert murmur2_partitioner(None, [0], 7) is None


def test_librdkafkas_default_takes_the_crc_of_the_key_and_any_partition_without() -> None:
    assert consistent_random_partitioner(b"k", [0, 1, 2], 3) == zlib.crc32(b"k") % 3
    assert consistent_partitioner(None, [0, 1, 2], 3) == 0
    assert {consistent_random_partitioner(b"", [1, 2], 3) for _ in range(50)} == {1, 2}


@pytest.mark.parametrize("name", sorted(PARTITIONERS))
def test_every_partitioner_stays_within_the_topic(name: str) -> None:
    for key in (None, b"", b"some key"):
        assert PARTITIONERS[name](key, [0, 1, 2], 3) in (None, 0, 1, 2)


def test_confluent_kafka_agrees_on_both_hashes() -> None:
    """librdkafka's own choice of partition, by a producer of it against a broker of ours."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    from ottla.testing import TestBroker

    keys = [f"key-{number}".encode() for number in range(40)]
    with TestBroker({"num.partitions": "5"}) as broker:
        for name in ("murmur2", "consistent"):
            placed: dict[bytes, int] = {}
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": broker.bootstrap_servers, "partitioner": name, "linger.ms": 0}
            )
            for key in keys:
                producer.produce(f"keys-{name}", b"", key, on_delivery=partial(_note, placed))
            assert producer.flush(60) == 0
            assert placed == {key: PARTITIONERS[name](key, range(5), 5) for key in keys}


def _note(placed: dict[bytes, int], _error: object, message: Any) -> None:
    placed[message.key()] = message.partition()
