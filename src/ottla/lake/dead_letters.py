"""Records that could not be columns, sent to a topic with the reason and where they came from: at least once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ottla.client.blocking import Cluster
from ottla.lake.write import read_dead_letters
from ottla.records.builder import BatchBuilder

BATCH_BYTES = 512 << 10


def send_dead_letters(cluster: Cluster, topic: str, paths: Sequence[Path]) -> int:
    """Produce the letters in these files and return their number once every replica in sync has them."""
    if not any(path.exists() for path in paths):
        return 0
    cluster.run(cluster.plan.ensure([topic], create=True))
    partitions = sorted(cluster.topic(topic).partitions)
    identity = cluster.init_producer_id()
    sequences = dict.fromkeys(partitions, 0)
    sent = 0
    for number, path in enumerate(paths):
        if not path.exists():
            continue
        partition = partitions[number % len(partitions)]
        for builder in _batches(path):
            batch = builder.build(
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=sequences[partition],
            )
            cluster.produce(topic, partition, batch)
            sequences[partition] += builder.records_count
            sent += builder.records_count
    return sent


def _batches(path: Path) -> Iterator[BatchBuilder]:
    builder = BatchBuilder(max_bytes=BATCH_BYTES)
    letters = read_dead_letters(path)
    times = letters.column("timestamp").cast(pa.int64()).to_pylist()
    for row, microseconds in zip(letters.drop_columns("timestamp").to_pylist(), times, strict=True):
        timestamp = microseconds // 1000
        headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
        headers += [
            ("ottla.reason", row["reason"].encode()),
            ("ottla.topic", row["topic"].encode()),
            ("ottla.partition", str(row["partition"]).encode()),
            ("ottla.offset", str(row["offset"]).encode()),
        ]
        if not builder.add(timestamp, row["key"], row["value"], headers):
            yield builder
            builder = BatchBuilder(max_bytes=BATCH_BYTES)
            builder.add(timestamp, row["key"], row["value"], headers)
    if builder.records_count:
        yield builder
