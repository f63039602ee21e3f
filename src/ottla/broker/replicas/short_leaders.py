"""Leaders that lack committed records: a follower that would have to cut such records off reports its leader (rule
A11).

Called by fetcher.py after the follower has refused the cut (replication/follower.py). If the reporting replica counts,
the cluster removes the leader from the sets and elects another one (cluster/partitions.py).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.cluster.commands import DeposeShortLeader
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicId

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.metadata_log.command_queue import Outcome
    from ottla.broker.replicas.partition import Partition
    from ottla.replication.follower import FollowerReplica

log = logging.getLogger("ottla.replicas")
_AGAIN_MS = 500


class ShortLeaders:
    """Reports such leaders of this broker's replicas."""

    def __init__(self, around: Environment) -> None:
        self._around = around

    def report(self, partition: Partition, why: str) -> None:
        """Report the leader: the replica keeps its log, and asks for another leader."""
        log.error(
            "%s-%d stops following: %s. The leader lacks the rest: its log directory may be an older copy. Another "
            "replica is asked to lead", partition.topic, partition.index, why,
        )  # fmt: skip
        if partition.follower is not None:
            self._submit(partition, partition.follower)

    def _submit(self, partition: Partition, follower: FollowerReplica) -> None:
        command = DeposeShortLeader(TopicId(partition.topic_id), partition.index, follower.epoch)
        slot = self._around.follow.submit(command)
        slot.when_full(lambda: self._told(partition, follower, slot.result()))

    def _told(self, partition: Partition, follower: FollowerReplica, outcome: Outcome) -> None:
        """Ask again, until the leadership ends or the cluster answers that this replica is not in sync."""
        if partition.follower is not follower or not isinstance(outcome, ApiError):
            return
        if outcome.code != ErrorCode.INELIGIBLE_REPLICA:
            self._around.deadlines.after(_AGAIN_MS, lambda: self._again(partition, follower))
            return
        topic, index, here = partition.topic, partition.index, self._around.broker
        log.error(
            "%s-%d is not in sync, so that its leader stays, and it fetches nothing more: an administrator has to "
            "choose. To have the records of this replica (broker %d), stop broker %d and run ottla "
            "kafka-leader-election --election-type unclean --topic %s --partition %d. To have those of the leader, "
            "move the replica away from broker %d and back with ottla kafka-reassign-partitions",
            topic, index, here, follower.leader, topic, index, here,
        )  # fmt: skip

    def _again(self, partition: Partition, follower: FollowerReplica) -> None:
        if partition.follower is follower:
            self._submit(partition, follower)
