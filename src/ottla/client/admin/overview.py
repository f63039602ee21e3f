"""The cluster seen from outside: leaders and in-sync replicas, also of brokers that are gone.

blocking/looks.py asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.model import Broker, PartitionView


class Share(NamedTuple):
    """One broker's part of all partitions. A broker that is gone has shares as well."""

    leads: int
    replicas: int
    in_sync: int


class ClusterOverview(NamedTuple):
    """The live brokers of a cluster, the replicas on each, and how many partitions are not well."""

    cluster_id: str
    caretaker: int
    brokers: dict[int, Broker]
    """The brokers that live."""
    shares: dict[int, Share]
    topics: int
    partitions: int
    under_replicated: int
    leaderless: int

    @property
    def summary(self) -> str:
        """The overview in one line."""
        text = f"{_count(self.topics, 'topic')}, {_count(self.partitions, 'partition')}"
        if self.leaderless:
            text += f", {self.leaderless} without a leader"
        if self.under_replicated:
            return text + f", {self.under_replicated} under-replicated"
        return text + ", all in sync"


def overview_of(
    cluster_id: str, caretaker: int, brokers: dict[int, Broker], topics: Sequence[Sequence[PartitionView]]
) -> ClusterOverview:
    """Count the replicas and leaderships of each broker."""
    partitions = [partition for topic in topics for partition in topic]
    known = sorted({*brokers, *(replica for partition in partitions for replica in partition.replicas)})
    return ClusterOverview(
        cluster_id,
        caretaker,
        brokers,
        {
            broker: Share(
                sum(partition.leader == broker for partition in partitions),
                sum(broker in partition.replicas for partition in partitions),
                sum(broker in partition.isr for partition in partitions),
            )
            for broker in known
        },
        len(topics),
        len(partitions),
        sum(len(partition.isr) < len(partition.replicas) for partition in partitions),
        sum(partition.leader < 0 for partition in partitions),
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
