"""The order in which a Java HashMap yields its keys: some of Kafka's tools print in it, and users compare output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

K = TypeVar("K")
_MASK = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """`String.hashCode`, unsigned, over UTF-16 units."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(raw), 2):
        value = (31 * value + (raw[position] << 8 | raw[position + 1])) & _MASK
    return value


def partition_hash(partition: tuple[str, int]) -> int:
    """`TopicPartition.hashCode`, unsigned."""
    return (31 * (31 + partition[1]) + string_hash(partition[0])) & _MASK


def hash_order(keys: Iterable[K], hash_of: Callable[[K], int], capacity: int = 16) -> list[K]:
    """Keys put into a HashMap of an initial capacity one after the other, in the order of iteration."""
    inserted = list(dict.fromkeys(keys))
    size = 1
    while size < capacity:
        size *= 2
    while len(inserted) > size * 3 // 4:
        size *= 2

    def bucket(key: K) -> int:
        value = hash_of(key)
        return (value ^ (value >> 16)) & (size - 1)

    return sorted(inserted, key=bucket)
