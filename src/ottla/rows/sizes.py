"""Estimates the bytes of ranges by the sizes of their logs, for the choice of an engine."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.admin.replicas import describe_log_dirs
from ottla.client.blocking.cluster import Cluster
from ottla.client.model import EARLIEST, LATEST
from ottla.kernel.ids import TopicPartition
from ottla.rows.plan import OffsetRange

RECORD_BYTES = 1024.0
"""A record's size where no broker tells the size of its log."""


def estimated_bytes(where: Cluster, ranges: Sequence[OffsetRange]) -> int:
    """The bytes of these ranges as they lie in the logs: offsets count as much as all others of their partition do."""
    partitions = sorted({span.topic_partition for span in ranges})
    sizes = _log_bytes(where, partitions)
    known = sorted(sizes)
    first, last = where.list_offsets(known, EARLIEST), where.list_offsets(known, LATEST)
    each = {part: sizes[part] / max(1, last[part].offset - first[part].offset) for part in known}
    return int(sum(span.size * each.get(span.topic_partition, RECORD_BYTES) for span in ranges))


def _log_bytes(where: Cluster, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The size of each partition's largest log. A broker that refuses, or does not answer, tells none."""
    found: dict[TopicPartition, int] = {}
    answers = where.run(describe_log_dirs(where.plan, list(where.brokers().values()), partitions))
    for directories in answers.values():
        for topic in [] if isinstance(directories, Exception) else [t for each in directories for t in each.topics]:
            for part in topic.partitions:
                here = TopicPartition(topic.name, part.partition_index)
                found[here] = max(found.get(here, 0), part.partition_size)
    return {partition: size for partition, size in found.items() if partition in set(partitions)}
