"""The leader's view of one partition: which replica holds what on disk, and so what is committed.

Comes from broker/partition.py, which also carries out what is returned here.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerEpoch, BrokerId, EndOffset, LeaderEpoch, SyncedOffset


class ReplicaKey(NamedTuple):
    """One incarnation of a replica's broker."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


class Held(NamedTuple):
    """What a replica has on disk, and when it last showed so."""

    through: SyncedOffset
    seen_ms: int


class Refused(NamedTuple):
    """The fetch is no receipt: nothing was recorded."""

    error: ErrorCode


class LeaderReplica:
    """Raises the high watermark as the replicas, the leader's own among them, show what they have on disk.

    The high watermark is the least synced offset over the maximal in-sync set: the committed one and the proposed one
    together (rule A3). It stands still while the committed set is smaller than min(min.insync.replicas, replicas).
    """

    __slots__ = (
        "committed_in_sync",
        "epoch",
        "epoch_start",
        "held",
        "high_watermark",
        "me",
        "min_in_sync",
        "proposed_in_sync",
        "registered",
        "replicas",
    )

    def __init__(
        self,
        *,
        me: BrokerId,
        epoch: LeaderEpoch,
        epoch_start: EndOffset,
        replicas: tuple[BrokerId, ...],
        in_sync: frozenset[BrokerId],
        min_in_sync: int,
        high_watermark: EndOffset,
        synced_through: SyncedOffset,
        registered: dict[BrokerId, BrokerEpoch],
        now_ms: int,
    ) -> None:
        self.me = me
        self.epoch = epoch
        self.epoch_start = epoch_start
        self.replicas = replicas
        self.committed_in_sync = in_sync
        self.proposed_in_sync = in_sync
        self.min_in_sync = min_in_sync
        self.high_watermark = high_watermark
        self.registered = registered
        nothing = SyncedOffset(0)
        self.held = {broker: Held(nothing, now_ms) for broker in replicas}
        self.held[me] = Held(synced_through, now_ms)

    @property
    def required_in_sync(self) -> int:
        return min(self.min_in_sync, len(self.replicas))

    @property
    def enough_in_sync(self) -> bool:
        """Whether `acks=all` may be taken at all (error 19 where not, rule A9)."""
        return len(self.committed_in_sync) >= self.required_in_sync

    def on_own_sync(self, synced_through: SyncedOffset, *, now_ms: int) -> EndOffset | None:
        """Our own disk holds every record below `synced_through`; the new high watermark, or None."""
        self.held[self.me] = Held(synced_through, now_ms)
        return self._commit()

    def on_fetch(
        self, replica: ReplicaKey, *, leader_epoch: LeaderEpoch, synced_through: SyncedOffset, now_ms: int
    ) -> EndOffset | Refused | None:
        """Take a fetch as the follower's receipt for every record below `synced_through` (rules A1, A2).

        The caller has compared the follower's last epoch with our history: a diverging fetch never comes here.
        """
        if self.registered.get(replica.broker) != replica.broker_epoch:
            return Refused(ErrorCode.STALE_BROKER_EPOCH)
        if leader_epoch != self.epoch:
            return Refused(ErrorCode.FENCED_LEADER_EPOCH)
        if replica.broker not in self.held:
            return Refused(ErrorCode.UNKNOWN_LEADER_EPOCH)
        self.held[replica.broker] = Held(synced_through, now_ms)
        return self._commit()

    def on_in_sync_applied(self, in_sync: frozenset[BrokerId]) -> EndOffset | None:
        """An applied entry ends whatever was proposed (rule A4); the new high watermark, or None."""
        self.committed_in_sync = self.proposed_in_sync = in_sync
        return self._commit()

    def on_min_in_sync(self, min_in_sync: int) -> EndOffset | None:
        """`min.insync.replicas` was set anew; the new high watermark, or None."""
        self.min_in_sync = min_in_sync
        return self._commit()

    def _commit(self) -> EndOffset | None:
        """The new high watermark, or None where it did not move."""
        if len(self.committed_in_sync) < self.required_in_sync:
            return None
        held = self.held
        if len(self.committed_in_sync) == 1 and self.proposed_in_sync is self.committed_in_sync:
            (only,) = self.committed_in_sync
            on_every_disk = held[only].through
        else:
            on_every_disk = min(held[broker].through for broker in self.committed_in_sync | self.proposed_in_sync)
        if on_every_disk <= self.high_watermark:
            return None
        self.high_watermark = EndOffset(on_every_disk)
        return self.high_watermark
