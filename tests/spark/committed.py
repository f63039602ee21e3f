"""Reads a topic as a reader of committed records sees it."""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.blocking.cluster import Cluster
from ottla.client.model import LATEST, IsolationLevel
from ottla.kernel.ids import TopicPartition
from ottla.rows.kafka_settings import KafkaSettings
from ottla.rows.plan import OffsetRange
from ottla.rows.read import read_decoded


def stable_ends(cluster: Cluster, topic: str) -> dict[TopicPartition, int]:
    """The last stable offset of each partition."""
    found = cluster.list_offsets(cluster.partitions(topic), LATEST, IsolationLevel.READ_COMMITTED)
    return {partition: each.offset for partition, each in found.items()}


def ends(cluster: Cluster, topic: str) -> dict[TopicPartition, int]:
    """The high watermark of each partition."""
    found = cluster.list_offsets(cluster.partitions(topic), LATEST)
    return {partition: each.offset for partition, each in found.items()}


def settled(cluster: Cluster, topic: str, eventually: Callable[[Callable[[], bool]], None]) -> None:
    """Wait until no transaction is open: a commit is answered before its markers are written."""
    eventually(lambda: stable_ends(cluster, topic) == ends(cluster, topic))


def committed_rows(cluster: Cluster, bootstrap: str, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Partition, key and value of every record below the last stable offsets, in their order."""
    settings = KafkaSettings(bootstrap, read_committed=True)
    rows = []
    for partition, end in sorted(stable_ends(cluster, topic).items()):
        span = OffsetRange(topic, partition.partition, 0, end, cluster.topic_id(topic))
        for piece in read_decoded(span, settings, columns=("key", "value")):
            rows += [(partition.partition, row["key"], row["value"]) for row in piece.batch.to_pylist()]
    return rows
