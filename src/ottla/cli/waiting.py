"""Partitions that wait for an administrator, as no replica is left that may lead, and the choices.

`ottla doctor` and `ottla cluster describe` print them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.kernel.errors import ApiError
    from ottla.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic


class LeaderlessPartition(NamedTuple):
    """One partition without a leader whose last replica lives."""

    topic: str
    partition: int
    broker: int
    """The broker that has the last replica."""

    @property
    def why(self) -> str:
        return (
            f"{self.topic}-{self.partition} waits for an administrator: its last replica, on broker {self.broker}, "
            "came back with an older log directory, or damaged (the log of that broker says which)"
        )

    def advice(self, bootstrap: str) -> str:
        return (
            f"stop broker {self.broker}, put the newer directory back and start it again; or accept what it holds now "
            f"and lose the rest: ottla kafka-leader-election --bootstrap-server {bootstrap} --election-type unclean "
            f"--topic {self.topic} --partition {self.partition}"
        )


def waiting_partitions(
    found: Mapping[str, DescribeTopicPartitionsResponseTopic | ApiError],
) -> list[LeaderlessPartition]:
    """The waiting partitions of described topics, unless they wait for the broker of the last replica."""
    waiting: list[LeaderlessPartition] = []
    for name, topic in sorted(found.items()):
        if isinstance(topic, Exception):
            continue
        for part in topic.partitions:
            last = [one for one in part.last_known_elr or [] if one not in part.offline_replicas]
            if part.leader_id < 0 and not part.isr_nodes and not part.eligible_leader_replicas and last:
                waiting.append(LeaderlessPartition(name, part.partition_index, last[0]))
    return waiting
