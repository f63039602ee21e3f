"""Proposes changes of the in-sync set: lagging replicas leave, replicas with all committed records join.

Called by broker/replicas/partition.py, by time and after receipts. A proposal becomes a command to the metadata log;
leader.py counts the proposed set beside the committed one until an applied entry decides (rules A3, A4).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.kernel.ids import BrokerEpoch, BrokerId, EndOffset, LeaderEpoch, PartitionEpoch
from ottla.replication.leader import LeaderReplica

_PATIENT_CONFLICTS = 3
_BACK_OFF_MS = 20


class Proposal(NamedTuple):
    """A new in-sync set with the epochs it is based on, and the known incarnation of each member."""

    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    in_sync: tuple[tuple[BrokerId, BrokerEpoch], ...]
    shrinks: bool
    """True if a replica leaves: such proposals go before those that only add replicas."""


class InSyncKeeper:
    """One partition's proposals: one in flight, with a back-off after conflicts."""

    __slots__ = ("_at_end", "_conflicts", "_in_flight", "_leader", "_not_before_ms", "_unknown_at")

    def __init__(self, leader: LeaderReplica) -> None:
        self._leader = leader
        self._in_flight: Proposal | None = None
        self._unknown_at: PartitionEpoch | None = None
        """The partition epoch of a proposal whose outcome is unknown: it may still be appended."""
        self._conflicts = 0
        self._not_before_ms = 0
        self._at_end: set[BrokerId] = set()

    def look(
        self,
        *,
        end_offset: EndOffset,
        spoke_ms: Mapping[BrokerId, int],
        eligible: Collection[BrokerId],
        lag_max_ms: int,
        now_ms: int,
    ) -> Proposal | None:
        """The proposal to make now, if any. `spoke_ms`: the last fetch of each broker, for any partition, since a
        session does not repeat a partition at its end. `eligible`: brokers that are alive and not draining."""
        self._refresh(end_offset, spoke_ms, now_ms)
        if self._in_flight is not None and self._in_flight.partition_epoch >= self._leader.partition_epoch:
            return None
        self._in_flight = None
        if now_ms < self._not_before_ms:
            return None
        leader = self._leader
        now_in = leader.committed_in_sync
        stay = {broker for broker in now_in if not self._lags(broker, lag_max_ms, now_ms)}
        spoke = {broker: max(leader.held[broker].seen_ms, spoke_ms.get(broker, 0)) for broker in leader.replicas}
        joining = {
            broker
            for broker in leader.replicas
            if broker not in now_in and self.may_join(broker, eligible)
            if now_ms - spoke[broker] <= lag_max_ms
        }
        wanted = stay | joining
        if wanted == now_in:
            return None
        if any(broker not in leader.registered for broker in wanted):
            return None  # the metadata will soon tell which brokers have gone
        members = tuple((broker, leader.registered[broker]) for broker in leader.replicas if broker in wanted)
        for broker in sorted(joining):  # else its lag, counted from before, would make it leave at once
            leader.caught_up(broker, spoke[broker])
        leader.propose(frozenset(wanted))
        self._in_flight = Proposal(leader.epoch, leader.partition_epoch, members, shrinks=not now_in <= wanted)
        return self._in_flight

    def may_join(self, broker: BrokerId, eligible: Collection[BrokerId]) -> bool:
        """True if the replica has shown every committed record, and records of this epoch: else it may lack records
        that earlier leaders committed and that we do not know of yet (KAFKA-7128). Deleted records must be deleted
        there too."""
        leader = self._leader
        held = leader.held[broker]
        return (
            held.shown
            and broker in eligible
            and held.through >= leader.high_watermark
            and held.through >= leader.epoch_start
            and held.log_start >= leader.promised_start
        )

    def _lags(self, broker: BrokerId, lag_max_ms: int, now_ms: int) -> bool:
        return broker != self._leader.me and now_ms - self._leader.held[broker].caught_up_ms > lag_max_ms

    def _refresh(self, end_offset: EndOffset, spoke_ms: Mapping[BrokerId, int], now_ms: int) -> None:
        """Note replicas at our end, now or at the last look, as caught up at their broker's last fetch."""
        leader = self._leader
        for broker in leader.replicas:
            if broker == leader.me:
                continue
            held = leader.held[broker]
            at_end = held.shown and held.through >= end_offset
            if at_end or broker in self._at_end:
                leader.caught_up(broker, min(now_ms, spoke_ms.get(broker, held.seen_ms)))
            if at_end:
                self._at_end.add(broker)
            else:
                self._at_end.discard(broker)

    # --- how a proposal ended ---

    def on_refused(self, proposal: Proposal, *, rank: int, now_ms: int) -> EndOffset | None:
        """The proposal was refused: propose again, after a back-off if others were always first (rule A4).

        The proposal failed for good, so drop its replicas, unless another proposal is still open. Otherwise a replica
        that was to join and died just then would block all commits until it is back. Return the new high watermark,
        or None.
        """
        self._conflicts += 1
        if self._conflicts >= _PATIENT_CONFLICTS:
            self._not_before_ms = now_ms + rank * _BACK_OFF_MS
        leader = self._leader
        if proposal is not self._in_flight:
            return None
        self._in_flight = None
        if proposal.partition_epoch != leader.partition_epoch or self._unknown_at == leader.partition_epoch:
            return None
        return leader.withdraw()

    def on_unknown(self, proposal: Proposal) -> None:
        """Note that the outcome is unknown: another set may be proposed, and both count."""
        self._unknown_at = proposal.partition_epoch
        if proposal is self._in_flight:
            self._in_flight = None

    def on_done(self, proposal: Proposal) -> None:
        """Note that the proposal's entries are applied."""
        if proposal is self._in_flight:
            self._in_flight = None
        self._conflicts = 0
        self._not_before_ms = 0
