"""The leader's view of one partition: which replica holds what on disk, and so what is committed.

Comes from broker/replicas/partition.py, which also carries out what is returned here; in_sync.py asks here who may
join or leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerEpoch, BrokerId, EndOffset, LeaderEpoch, PartitionEpoch, SyncedOffset

EpochEnds = Callable[[int], tuple[int, int]]
"""The largest epoch of our log at or below the one asked for, and where it ends; (-1, -1): newer than any here."""


class ReplicaKey(NamedTuple):
    """One incarnation of a replica's broker."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


class Held(NamedTuple):
    """What a replica has on disk, when it last showed so, and when it was last known to have reached our end."""

    through: SyncedOffset
    seen_ms: int
    caught_up_ms: int
    end_then: EndOffset
    """Our end when it was last seen: whoever comes back with that much had caught up at that time."""
    shown: bool = False
    """Whether it has given a receipt in this epoch; what others told of it before is not known."""
    log_start: int = 0
    """Where its log starts, after a crash too."""


class Refused(NamedTuple):
    """The fetch is no receipt: nothing was recorded."""

    error: ErrorCode


class Diverged(NamedTuple):
    """The follower's last epoch ends elsewhere in our log: it must cut back, and nothing was recorded."""

    epoch: int
    end_offset: int


class LeaderReplica:
    """Raises the high watermark as the replicas, the leader's own among them, show what they have on disk.

    The high watermark is the least synced offset over the maximal in-sync set: the committed one and all that was
    proposed since together (rule A3). It stands still while the committed set is smaller than
    min(min.insync.replicas, replicas).
    """

    __slots__ = (
        "committed_in_sync",
        "epoch",
        "epoch_ends",
        "epoch_start",
        "held",
        "high_watermark",
        "me",
        "min_in_sync",
        "partition_epoch",
        "promised_start",
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
        epoch_ends: EpochEnds,
        replicas: tuple[BrokerId, ...],
        in_sync: frozenset[BrokerId],
        partition_epoch: PartitionEpoch,
        min_in_sync: int,
        high_watermark: EndOffset,
        synced_through: SyncedOffset,
        log_start: int,
        registered: Mapping[BrokerId, BrokerEpoch],
        now_ms: int,
    ) -> None:
        self.me = me
        self.epoch = epoch
        self.epoch_start = epoch_start
        self.epoch_ends = epoch_ends
        self.replicas = replicas
        self.committed_in_sync = in_sync
        self.proposed_in_sync = in_sync
        """Every replica of the committed set and of the proposals that no applied entry has ended yet."""
        self.partition_epoch = partition_epoch
        self.min_in_sync = min_in_sync
        self.high_watermark = high_watermark
        self.registered = registered
        self.promised_start = log_start
        """DeleteRecords was answered, or is to be once every replica in sync starts here: nobody joins who does not.

        What earlier leaders answered is not above our own start, as we were in sync.
        """
        self.held = {broker: Held(SyncedOffset(0), now_ms, now_ms, epoch_start) for broker in replicas}
        self.held[me] = Held(synced_through, now_ms, now_ms, epoch_start, shown=True)

    @property
    def required_in_sync(self) -> int:
        return min(self.min_in_sync, len(self.replicas))

    @property
    def enough_in_sync(self) -> bool:
        """Whether `acks=all` may be taken at all (error 19 where not, rule A9)."""
        return len(self.committed_in_sync) >= self.required_in_sync

    @property
    def knows_committed(self) -> bool:
        """Whether all that earlier leaders committed, which lies below our epoch's start, is known to be (KIP-207)."""
        return self.high_watermark >= self.epoch_start

    # --- receipts ---

    def on_own_sync(self, synced_through: SyncedOffset, *, now_ms: int) -> EndOffset | None:
        """Our own disk holds every record below `synced_through`; the new high watermark, or None."""
        self.held[self.me] = Held(synced_through, now_ms, now_ms, self.epoch_start, shown=True)
        return self._commit()

    def on_fetch(
        self,
        replica: ReplicaKey,
        *,
        leader_epoch: LeaderEpoch,
        last_epoch: int,
        synced_through: SyncedOffset,
        end_offset: EndOffset,
        now_ms: int,
        log_start: int = 0,
    ) -> EndOffset | Diverged | Refused | None:
        """Take a fetch as the follower's receipt for every record below `synced_through` (rules A1, A2).

        Only a fetch of this incarnation, in our epoch, on our history is one: a follower that is ahead in an older
        epoch would otherwise let us commit what it is about to cut off (KIP-595). `end_offset` is our own end now.
        """
        before = self.held.get(replica.broker)
        if before is None or replica.broker == self.me:
            return Refused(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self.registered.get(replica.broker) != replica.broker_epoch:
            return Refused(ErrorCode.STALE_BROKER_EPOCH)
        if leader_epoch != self.epoch:
            older = leader_epoch < self.epoch
            return Refused(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if (difference := self._first_difference(last_epoch, synced_through, end_offset)) is not None:
            return difference
        caught_up_ms = before.caught_up_ms
        if synced_through >= end_offset:
            caught_up_ms = now_ms
        elif synced_through >= before.end_then:
            caught_up_ms = max(caught_up_ms, before.seen_ms)
        self.held[replica.broker] = Held(synced_through, now_ms, caught_up_ms, end_offset, True, log_start)
        return self._commit()

    def _first_difference(self, last_epoch: int, offset: int, end_offset: int) -> Diverged | Refused | None:
        """None where `offset`, reached in `last_epoch`, lies on our history."""
        if last_epoch < 0:  # an empty log, or one that was started over at our start
            return Refused(ErrorCode.OFFSET_OUT_OF_RANGE) if offset > end_offset else None
        epoch, ends_at = self.epoch_ends(last_epoch)
        if epoch < 0:
            return Refused(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if epoch != last_epoch or ends_at < offset:
            return Diverged(epoch, ends_at)
        return None

    def starts_everywhere(self) -> int:
        """Every other replica that may be in sync starts here or later.

        While too few are in sync, those who left stay eligible to lead, and nothing can be said of them (rule A6).
        """
        if not self.enough_in_sync:
            return 0
        others = (self.committed_in_sync | self.proposed_in_sync) - {self.me}
        return min((self.held[broker].log_start for broker in others), default=self.promised_start)

    # --- the in-sync set ---

    def propose(self, in_sync: frozenset[BrokerId]) -> None:
        """A proposal leaves: until an applied entry ends it, its replicas count beside the committed ones."""
        self.proposed_in_sync = self.proposed_in_sync | in_sync

    def withdraw(self) -> EndOffset | None:
        """What was proposed will never be so: the committed set counts alone; the new high watermark."""
        self.proposed_in_sync = self.committed_in_sync
        return self._commit()

    def on_applied(
        self,
        partition_epoch: PartitionEpoch,
        in_sync: frozenset[BrokerId],
        replicas: tuple[BrokerId, ...],
        *,
        now_ms: int,
    ) -> EndOffset | None:
        """An applied entry of a later partition epoch ends whatever was proposed (rule A4); the new high watermark."""
        if partition_epoch <= self.partition_epoch:
            return None
        self.partition_epoch = partition_epoch
        self.committed_in_sync = self.proposed_in_sync = in_sync
        if replicas != self.replicas:
            nothing = Held(SyncedOffset(0), now_ms, now_ms, self.epoch_start)
            self.held = {broker: self.held.get(broker, nothing) for broker in replicas} | {self.me: self.held[self.me]}
            self.replicas = replicas
        return self._commit()

    def on_registered(self, registered: Mapping[BrokerId, BrokerEpoch], *, now_ms: int) -> None:
        """Brokers have come back: what their former incarnations held on disk is not known to be there (rule A8)."""
        for broker, held in self.held.items():
            if broker != self.me and registered.get(broker) != self.registered.get(broker):
                self.held[broker] = Held(SyncedOffset(0), now_ms, held.caught_up_ms, self.epoch_start)
        self.registered = registered

    def on_late_tick(self, late_ms: int) -> None:
        """The loop stood still: nobody could be heard meanwhile, so nobody is late for it (rule A5)."""
        for broker, held in self.held.items():
            self.held[broker] = held._replace(seen_ms=held.seen_ms + late_ms, caught_up_ms=held.caught_up_ms + late_ms)

    # --- options ---

    def on_min_in_sync(self, min_in_sync: int) -> EndOffset | None:
        """`min.insync.replicas` was set anew; the new high watermark, or None."""
        self.min_in_sync = min_in_sync
        return self._commit()

    def _commit(self) -> EndOffset | None:
        """The new high watermark, or None where it did not move."""
        committed = self.committed_in_sync
        if len(committed) < self.required_in_sync:
            return None
        held = self.held
        if len(committed) == 1 and self.proposed_in_sync is committed:
            (only,) = committed
            on_every_disk = held[only].through
        else:
            on_every_disk = min(held[broker].through for broker in committed | self.proposed_in_sync)
        if on_every_disk <= self.high_watermark:
            return None
        self.high_watermark = EndOffset(on_every_disk)
        return self.high_watermark
