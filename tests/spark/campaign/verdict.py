"""Compares the committed records of a campaign's target, read by librdkafka, with what its source was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

PREFIX = b"seen "
SHOWN = 5


def records(bootstrap: str, topic: str, *, committed: bool) -> list[tuple[bytes, bytes]]:
    """Key and value of all records, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "verdict",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    found = []
    try:
        for partition in sorted(partitions):
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(60)
                if message is None:
                    raise TimeoutError(f"nothing more of {topic}-{partition} came in 60 s, and no end")
                fault = message.error()
                if fault is None:
                    found.append((message.key(), message.value()))
                elif fault.code() == KafkaError._PARTITION_EOF:
                    break
                elif not fault.retriable():
                    raise KafkaException(fault)
    finally:
        consumer.close()
    return found


def differences(given: Sequence[tuple[bytes, bytes]], found: Iterable[tuple[bytes, bytes]]) -> list[str]:
    """Rows that are missing, there more than once or never given, and keys whose rows are in another order."""
    wanted = [(key, PREFIX + value) for key, value in given]
    held = list(found)
    counted, expected = Counter(held), Counter(wanted)
    said = [f"{len(held)} rows where {len(wanted)} were given"] if len(held) != len(wanted) else []
    for name, rows in (
        ("missing", expected - counted),
        ("there once more than given", counted - expected),
    ):
        if rows:
            said.append(f"{rows.total()} rows {name}, such as {sorted(rows)[:SHOWN]}")
    order, right = by_key(held), by_key(wanted)
    if not said and (wrong := [key for key in right if order.get(key) != right[key]]):
        said.append(f"{len(wrong)} keys have their rows in another order, such as {sorted(wrong)[:SHOWN]}")
    return said


def by_key(rows: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for key, value in rows:
        found.setdefault(key, []).append(value)
    return found
