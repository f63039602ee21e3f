"""Submits the in-sync sets that partitions led here propose, as commands (rule A4).

Called by reconcile.py, rounds.py and the Fetch handler; replication/in_sync.py decides which replicas join or leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.cluster.commands import ChangeInSync, ReplicaEpoch
from ottla.cluster.partitions import with_reassignment_completed
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import BrokerId, EndOffset, TopicId
from ottla.replication.in_sync import Proposal

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.metadata_log.command_queue import Outcome
    from ottla.broker.replicas.partition import Partition
    from ottla.kernel.story import Slot
    from ottla.replication.in_sync import InSyncKeeper
    from ottla.replication.leader import LeaderReplica

_UNDECIDED = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.BROKER_NOT_AVAILABLE)
"""Errors of unknown outcome: after a timeout or a stop the entries may still get into the log."""


class PartitionCoordinators(Protocol):
    """The coordinators of this broker: coordinators/leading.py."""

    def is_for(self, topic: str) -> bool:
        """True for the topics of the coordinators: the leader of a partition of one coordinates."""

    def lay_down_one(self, partition: Partition) -> None:
        """Stop coordinating for this partition until it is known which broker leads it."""

    def take_up_one(self, partition: Partition) -> None:
        """Coordinate again: this broker still leads the partition."""


class InSyncSets:
    """Looks at led partitions from time to time, and when something has changed."""

    def __init__(
        self,
        around: Environment,
        coordinating: PartitionCoordinators,
        partitions: Callable[[], Iterator[Partition]],
        spoke_ms: Mapping[BrokerId, int],
    ) -> None:
        """`partitions` are those here, `spoke_ms` the time of each broker's last fetch from here."""
        self._around = around
        self._coordinating = coordinating
        self._partitions = partitions
        self._spoke_ms = spoke_ms
        self._looked_ms = -1
        self._completing: dict[Partition, None] = {}
        """Partitions for which the end of a reassignment was submitted."""
        self.shrinks = self.expands = 0
        """The number of times that in-sync sets of partitions led here lost members, and that they gained some."""

    def count(self, before: frozenset[BrokerId], now: Iterable[BrokerId]) -> None:
        """An entry has changed the in-sync set of a partition that is led here."""
        members = frozenset(now)
        self.shrinks += not before <= members
        self.expands += not members <= before

    def round(self) -> None:
        """Look at all partitions, after half of the longest lag. A late round evicts no replica (rule A5)."""
        around = self._around
        now_ms, interval_ms = around.clock.mono_ms(), around.config.replica_lag_time_max_ms // 2
        late_ms = self._late_ms(now_ms)
        self._looked_ms = now_ms
        late = late_ms > interval_ms // 4
        for partition in self._partitions():
            leader = partition.leader
            if leader is None or len(leader.replicas) == 1:
                continue
            if late:
                leader.on_late_tick(late_ms)
            else:
                self.look(partition)

    def _late_ms(self, now_ms: int) -> int:
        """The delay of a round behind the time at which it was due."""
        due_ms = self._looked_ms + self._around.config.replica_lag_time_max_ms // 2
        return max(0, now_ms - due_ms) if self._looked_ms >= 0 else 0

    def look(self, partition: Partition) -> None:
        """Propose another in-sync set, if there should be one.

        A fetch may call this before a late round has run: the delay of the round is not held against replicas (rule
        A5).
        """
        around, leader, keeper = self._around, partition.leader, partition.keeper
        if leader is None or keeper is None or not around.may_lead():
            return
        now_ms = around.clock.mono_ms()
        proposal = keeper.look(
            end_offset=EndOffset(partition.log.end_offset),
            spoke_ms=self._spoke_ms,
            eligible=frozenset(broker.broker_id for broker in around.metadata.active_brokers()),
            lag_max_ms=self._lag_max_ms(partition) + self._late_ms(now_ms),
            now_ms=now_ms,
        )
        if proposal is None:
            proposal = self._completion(partition, leader)
        if proposal is None:
            return
        command = ChangeInSync(
            TopicId(partition.topic_id),
            partition.index,
            proposal.leader_epoch,
            proposal.partition_epoch,
            tuple(ReplicaEpoch(BrokerId(broker), epoch) for broker, epoch in proposal.in_sync),
        )
        lays_down = self._may_end_leadership(partition)
        if lays_down:  # the next coordinator may answer before we know of it
            self._coordinating.lay_down_one(partition)
        slot = around.follow.submit(command)
        slot.when_full(lambda: self._ended(partition, keeper, proposal, slot, laid_down=lays_down))

    def _lag_max_ms(self, partition: Partition) -> int:
        """The longest allowed lag; at least the lease for internal topics.

        A deposed coordinator may go on answering until it fetches from its successor. While it is in sync, the
        successor commits nothing without it; so the allowed lag is at least a lease (rule A12).
        """
        lag_max_ms, lease_ms = self._around.config.replica_lag_time_max_ms, self._around.follow.lease.length_ms
        return max(lag_max_ms, lease_ms) if partition.is_internal else lag_max_ms

    def _completion(self, partition: Partition, leader: LeaderReplica) -> Proposal | None:
        """A proposal of the present set, if that alone completes a reassignment."""
        metadata = self._around.metadata
        topic = metadata.topic_by_id(partition.topic_id)
        state = metadata.partition(partition.topic_id, partition.index)
        if topic is None or state is None or not (state.adding or state.removing):
            return None
        if state.partition_epoch != leader.partition_epoch or leader.proposed_in_sync != leader.committed_in_sync:
            return None  # the open proposal completes it, if possible
        if partition in self._completing or with_reassignment_completed(state, metadata, topic) == state:
            return None
        if any(broker not in leader.registered for broker in state.in_sync):
            return None
        self._completing[partition] = None
        members = tuple((broker, leader.registered[broker]) for broker in state.in_sync)
        return Proposal(leader.epoch, leader.partition_epoch, members, shrinks=False)

    def _may_end_leadership(self, partition: Partition) -> bool:
        """True for a coordinator's partition whose reassignment removes our replica: a new set may complete it."""
        around = self._around
        state = around.metadata.partition(partition.topic_id, partition.index)
        return self._coordinating.is_for(partition.topic) and state is not None and around.broker in state.removing

    def _ended(
        self,
        partition: Partition,
        keeper: InSyncKeeper,
        proposal: Proposal,
        slot: Slot[Outcome],
        *,
        laid_down: bool,
    ) -> None:
        self._completing.pop(partition, None)
        if laid_down and partition.leader is not None:
            self._coordinating.take_up_one(partition)
        outcome = slot.result()
        if not isinstance(outcome, ApiError):
            keeper.on_done(proposal)
        elif outcome.code in _UNDECIDED:
            keeper.on_unknown(proposal)
        else:
            partition.proposal_refused(keeper, proposal, rank=self._around.follow.rank())
