"""The cluster seen from outside: leaders and in-sync replicas, also of brokers that are gone.

`ottla cluster status` prints this, `ottla cluster up` shows it all the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.model import Broker, PartitionView

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin


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


def cluster_overview(admin: Admin) -> ClusterOverview:
    """Ask the cluster; raises the client's error where no broker answers."""
    cluster = admin.describe_cluster()
    topics = [list(view.partitions.values()) for view in admin.list_topics().values()]
    brokers = {one.broker_id: Broker(one.broker_id, one.host, one.port, one.rack) for one in cluster.brokers}
    return overview_of(cluster.cluster_id, cluster.controller_id, brokers, topics)


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
