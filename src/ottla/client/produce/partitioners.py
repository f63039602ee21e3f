"""The partition of a key: by Java's murmur2 or librdkafka's crc32, so that mixed clients agree."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from struct import unpack

Partitioner = Callable[[bytes | None, Sequence[int], int], int | None]
"""(key, partitions that have a leader, number of all partitions) -> partition; None: wherever the batch goes."""

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, as an unsigned number (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    length = len(data)
    value = 0x9747B28C ^ length
    if whole := length & ~3:
        for word in unpack(f"<{whole >> 2}I", data[:whole]):
            k = word * _M & _MASK
            value = (value * _M & _MASK) ^ ((k ^ (k >> 24)) * _M & _MASK)
    if tail := data[whole:]:
        value = (value ^ int.from_bytes(tail, "little")) * _M & _MASK
    value = (value ^ (value >> 13)) * _M & _MASK
    return value ^ (value >> 15)


def murmur2_partitioner(key: bytes | None, available: Sequence[int], count: int) -> int | None:
    """Hash keys as the Java client does; records without a key go wherever the current batch goes."""
    return None if key is None else (murmur2(key) & 0x7FFFFFFF) % count


def consistent_partitioner(key: bytes | None, available: Sequence[int], count: int) -> int | None:
    """librdkafka's `consistent`: CRC-32 of the key, also of an empty or missing one."""
    return zlib.crc32(key or b"") % count


def consistent_random_partitioner(key: bytes | None, available: Sequence[int], count: int) -> int | None:
    """librdkafka's default: CRC-32 of the key, anywhere without one."""
    return zlib.crc32(key) % count if key else random_partitioner(key, available, count)


def murmur2_random_partitioner(key: bytes | None, available: Sequence[int], count: int) -> int | None:
    """librdkafka's Java-compatible one."""
    return random_partitioner(key, available, count) if key is None else (murmur2(key) & 0x7FFFFFFF) % count


def random_partitioner(key: bytes | None, available: Sequence[int], count: int) -> int | None:
    """Any partition that has a leader, whatever the key."""
    return random.choice(available) if available else random.randrange(count)


PARTITIONERS: dict[str, Partitioner] = {
    "murmur2": murmur2_partitioner,
    "murmur2_random": murmur2_random_partitioner,
    "consistent": consistent_partitioner,
    "consistent_random": consistent_random_partitioner,
    "random": random_partitioner,
}
