"""Tells both coordinators when leaderships begin and end: the leader of a partition of their topic coordinates.

replicas/reconcile.py and replicas/in_sync_sets.py report leaderships, control/departure.py reports a shutdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC, TransactionCoordinator
from ottla.kernel.ids import NO_LEADER, BrokerId

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinator import Coordinator
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.partition import Partition
    from ottla.groups.shard import GroupShard
    from ottla.transactions.shard import TransactionShard


class Coordinators:
    """The coordinators of groups and of transactions."""

    def __init__(
        self,
        around: Environment,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        led: Callable[[], Iterable[Partition]],
    ) -> None:
        """`led` are the partitions that this broker leads."""
        self._around = around
        self._led = led
        self.by_topic: dict[str, Coordinator[GroupShard] | Coordinator[TransactionShard]] = {
            OFFSETS_TOPIC: groups,
            TRANSACTION_TOPIC: transactions,
        }

    def close(self) -> None:
        """Stop coordinating: the broker stops."""
        for coordinator in self.by_topic.values():
            coordinator.close()

    def wait_for_fenced(self, lease_ends_ms: Callable[[], int]) -> None:
        """Answer nothing before the time that `lease_ends_ms` tells (rule A12)."""
        for coordinator in self.by_topic.values():
            coordinator.answers_from_ms = lease_ends_ms

    # --- one partition ---

    def is_for(self, topic: str) -> bool:
        """True for the topics of the coordinators: the leader of a partition of one coordinates."""
        return topic in self.by_topic

    def started_leading(self, partition: Partition, before: BrokerId) -> None:
        """This broker leads the partition; `before` led it until now, as far as known here."""
        coordinator = self.by_topic.get(partition.topic)
        if coordinator is not None:
            around = self._around
            deposed = self._deposed_unheard(partition, before)
            not_before_ms = around.clock.mono_ms() + around.follow.lease.length_ms if deposed else 0
            coordinator.lead(partition, not_before_ms=not_before_ms)

    def _deposed_unheard(self, partition: Partition, before: BrokerId) -> bool:
        """True if the former leader may be alive and unaware that it was deposed, and cannot block commits (rule A12).

        Commits do not wait for a broker that is no replica any more: a live broker was unregistered, or a reassignment
        that had added it was cancelled or redirected. A leader that is removed by the completion of a reassignment
        completes it itself, and has stopped coordinating before.
        """
        metadata = self._around.metadata
        state = metadata.partition(partition.topic_id, partition.index)
        if state is None or before in (NO_LEADER, self._around.broker):
            return False
        broker = metadata.brokers.get(before)
        was_dropped = before in partition.adding and before not in state.replicas
        return broker is None or (was_dropped and not broker.fenced)

    def stopped_leading(self, partition: Partition) -> None:
        """This broker leads the partition no more."""
        coordinator = self.by_topic.get(partition.topic)
        if coordinator is not None:
            coordinator.resign(partition.index)

    def lay_down_one(self, partition: Partition) -> None:
        """Stop coordinating for this partition until it is known which broker leads it."""
        self.by_topic[partition.topic].resign(partition.index)

    def take_up_one(self, partition: Partition) -> None:
        """Coordinate again: this broker still leads the partition."""
        self.by_topic[partition.topic].resume(partition)

    # --- all of them ---

    def lay_down(self) -> None:
        """Coordinate nothing, whatever is led here, until it is known what is."""
        for coordinator in self.by_topic.values():
            coordinator.lay_down()

    def take_up(self) -> None:
        """Coordinate again for the partitions that this broker still leads."""
        for topic, coordinator in self.by_topic.items():
            coordinator.take_up([each for each in self._led() if each.topic == topic])
