"""The leader's view of one partition: which replica holds what on disk, and so what is committed.

Called by broker/replicas/partition.py, which also carries out the effects returned here; in_sync.py asks it which
replicas may join or leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerEpoch, BrokerId, EndOffset, LeaderEpoch, PartitionEpoch, SyncedOffset

EpochEnds = Callable[[int], tuple[int, int] | None]
"""The largest epoch of our log at or below the one asked for, and where it ends; None: newer than any here."""


class ReplicaKey(NamedTuple):
    """One incarnation of a replica's broker."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


class Held(NamedTuple):
    """A replica's end on disk, the time of its last receipt, and the time at which it last had reached our end."""

    through: SyncedOffset
    seen_ms: int
    caught_up_ms: int
    end_then: EndOffset
    """Our end at the replica's last fetch: if its next one reaches this end, it had caught up at that time."""
    shown: bool = False
    """True once the replica has given a receipt in this epoch; receipts to earlier leaders are not known here."""
    log_start: int = 0
    """The start of the replica's log, as it is after a crash too."""


class FetchRefused(NamedTuple):
    """The fetch is not a receipt; nothing was recorded."""

    error: ErrorCode


class Diverged(NamedTuple):
    """The follower's last epoch ends elsewhere in our log: it must cut back, and nothing was recorded."""

    epoch: int
    end_offset: int


class LeaderReplica:
    """Raises the high watermark as the replicas, including the leader's own, show what they have on disk.

    The high watermark is the least synced offset over the maximal in-sync set: the union of the committed set and
    all later proposals (rule A3). It does not move while the committed set is smaller than
    min(min.insync.replicas, replicas), where replicas that are being added do not count.
    """

    __slots__ = (
        "_arriving", "_committed_in_sync", "_epoch_ends", "_held", "_high_watermark", "_min_in_sync",
        "_partition_epoch", "_promised_start", "_proposed_in_sync", "_registered", "_replicas", "epoch",
        "epoch_start", "me",
    )  # fmt: skip

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
        arriving: int = 0,
    ) -> None:
        """`arriving`: the number of replicas that a reassignment adds and `min.insync.replicas` does not count yet."""
        self.me: Final = me
        self.epoch: Final = epoch
        self.epoch_start: Final = epoch_start
        self._epoch_ends = epoch_ends
        self._replicas = replicas
        self._arriving = arriving
        self._committed_in_sync = in_sync
        self._proposed_in_sync = in_sync
        self._partition_epoch = partition_epoch
        self._min_in_sync = min_in_sync
        self._high_watermark = high_watermark
        self._registered = registered
        self._promised_start = log_start
        self._held = {broker: Held(SyncedOffset(0), now_ms, now_ms, epoch_start) for broker in replicas}
        self._held[me] = Held(synced_through, now_ms, now_ms, epoch_start, shown=True)

    # --- what others may read ---

    @property
    def replicas(self) -> tuple[BrokerId, ...]:
        return self._replicas

    @property
    def partition_epoch(self) -> PartitionEpoch:
        return self._partition_epoch

    @property
    def committed_in_sync(self) -> frozenset[BrokerId]:
        """The in-sync set by the last applied entry."""
        return self._committed_in_sync

    @property
    def proposed_in_sync(self) -> frozenset[BrokerId]:
        """Every replica of the committed set and of open proposals.

        An applied entry of a later partition epoch ends a proposal, and so does a refusal (decision 0019).
        """
        return self._proposed_in_sync

    @property
    def registered(self) -> Mapping[BrokerId, BrokerEpoch]:
        """The incarnation of each broker."""
        return self._registered

    @property
    def held(self) -> Mapping[BrokerId, Held]:
        """The state that each replica has shown."""
        return self._held

    @property
    def high_watermark(self) -> EndOffset:
        """Everything below is committed."""
        return self._high_watermark

    @property
    def promised_start(self) -> int:
        """The start that DeleteRecords has promised, or will once all in-sync replicas start here; joining requires it.

        Promises of earlier leaders are not above our own start, as we were in sync.
        """
        return self._promised_start

    @property
    def required_in_sync(self) -> int:
        """A reassignment asks for no more than before until its replicas are in sync, as it may last, or be stuck."""
        return min(self._min_in_sync, len(self._replicas) - self._arriving)

    @property
    def enough_in_sync(self) -> bool:
        """True if a produce with `acks=all` may be appended (error 19 if not, rule A9)."""
        return len(self._committed_in_sync) >= self.required_in_sync

    @property
    def knows_committed(self) -> bool:
        """True once our high watermark covers everything that earlier leaders committed (KIP-207)."""
        return self._high_watermark >= self.epoch_start

    # --- receipts ---

    def on_own_sync(self, synced_through: SyncedOffset, *, now_ms: int) -> EndOffset | None:
        """Note that our own disk holds every record below `synced_through`; return the new high watermark, or None."""
        self._held[self.me] = Held(synced_through, now_ms, now_ms, self.epoch_start, shown=True)
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
    ) -> EndOffset | Diverged | FetchRefused | None:
        """Take a fetch as the follower's receipt for every record below `synced_through` (rules A1, A2).

        Only a fetch of this incarnation, in our epoch, on our history is one: a follower that is ahead in an older
        epoch would otherwise let us commit what it is about to cut off (KIP-595). `end_offset` is our own end now.
        """
        before = self._held.get(replica.broker)
        if before is None or replica.broker == self.me:
            return FetchRefused(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self._registered.get(replica.broker) != replica.broker_epoch:
            return FetchRefused(ErrorCode.STALE_BROKER_EPOCH)
        if leader_epoch != self.epoch:
            older = leader_epoch < self.epoch
            return FetchRefused(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if (difference := self._first_difference(last_epoch, synced_through, end_offset)) is not None:
            return difference
        caught_up_ms = before.caught_up_ms
        if synced_through >= end_offset:
            caught_up_ms = now_ms
        elif synced_through >= before.end_then:
            caught_up_ms = max(caught_up_ms, before.seen_ms)
        self._held[replica.broker] = Held(synced_through, now_ms, caught_up_ms, end_offset, True, log_start)
        return self._commit()

    def _first_difference(self, last_epoch: int, offset: int, end_offset: int) -> Diverged | FetchRefused | None:
        """None if `offset`, reached in `last_epoch`, is on our history."""
        if last_epoch < 0:  # an empty log, or one that began anew at our start
            return FetchRefused(ErrorCode.OFFSET_OUT_OF_RANGE) if offset > end_offset else None
        found = self._epoch_ends(last_epoch)
        if found is None:
            return FetchRefused(ErrorCode.UNKNOWN_LEADER_EPOCH)
        epoch, ends_at = found
        if epoch != last_epoch or ends_at < offset:
            return Diverged(epoch, ends_at)
        return None

    def starts_everywhere(self) -> int:
        """The lowest start of all other replicas that may be in sync.

        While too few are in sync, replicas that left stay eligible to lead, and their start is not known (rule A6).
        """
        if not self.enough_in_sync:
            return 0
        others = (self._committed_in_sync | self._proposed_in_sync) - {self.me}
        return min((self._held[broker].log_start for broker in others), default=self._promised_start)

    def promise_start(self, start: int) -> None:
        """Promise that records below `start` are deleted for good."""
        self._promised_start = max(self._promised_start, start)

    def go_on_with(self, epoch_ends: EpochEnds) -> None:
        """Use another log: the replica has moved to another directory."""
        self._epoch_ends = epoch_ends

    # --- the in-sync set ---

    def caught_up(self, broker: BrokerId, at_ms: int) -> None:
        """Note that the replica was at our end at that time."""
        held = self._held[broker]
        if at_ms > held.caught_up_ms:
            self._held[broker] = held._replace(caught_up_ms=at_ms)

    def propose(self, in_sync: frozenset[BrokerId]) -> None:
        """Add a proposal: until an applied entry or a refusal ends it, its replicas count beside the committed ones."""
        self._proposed_in_sync = self._proposed_in_sync | in_sync

    def withdraw(self) -> EndOffset | None:
        """Drop a failed proposal, so that the committed set counts alone; return the new high watermark."""
        self._proposed_in_sync = self._committed_in_sync
        return self._commit()

    def on_applied(
        self,
        partition_epoch: PartitionEpoch,
        in_sync: frozenset[BrokerId],
        replicas: tuple[BrokerId, ...],
        *,
        now_ms: int,
        arriving: int = 0,
    ) -> EndOffset | None:
        """An applied entry of a later partition epoch ends whatever was proposed (rule A4); the new high watermark."""
        if partition_epoch <= self._partition_epoch:
            return None
        self._partition_epoch = partition_epoch
        self._arriving = arriving
        self._committed_in_sync = self._proposed_in_sync = in_sync
        if replicas != self._replicas:
            held, nothing = self._held, Held(SyncedOffset(0), now_ms, now_ms, self.epoch_start)
            self._held = {broker: held.get(broker, nothing) for broker in replicas} | {self.me: held[self.me]}
            self._replicas = replicas
        return self._commit()

    def on_registered(self, registered: Mapping[BrokerId, BrokerEpoch], *, now_ms: int) -> None:
        """Forget what former incarnations of these brokers held: it may not be on disk any more (rule A8)."""
        for broker, held in self._held.items():
            if broker != self.me and registered.get(broker) != self._registered.get(broker):
                self._held[broker] = Held(SyncedOffset(0), now_ms, held.caught_up_ms, self.epoch_start)
        self._registered = registered

    def on_late_tick(self, late_ms: int) -> None:
        """Forgive the time in which the loop stood still, as no receipt could be read meanwhile (rule A5)."""
        for broker, held in self._held.items():
            self._held[broker] = held._replace(seen_ms=held.seen_ms + late_ms, caught_up_ms=held.caught_up_ms + late_ms)

    # --- options ---

    def on_min_in_sync(self, min_in_sync: int) -> EndOffset | None:
        """Take a new `min.insync.replicas`; return the new high watermark, or None."""
        self._min_in_sync = min_in_sync
        return self._commit()

    def _commit(self) -> EndOffset | None:
        """The new high watermark, or None where it did not move."""
        committed = self._committed_in_sync
        if len(committed) < self.required_in_sync:
            return None
        held = self._held
        if len(committed) == 1 and self._proposed_in_sync is committed:
            (only,) = committed
            on_every_disk = held[only].through
        else:
            on_every_disk = min(held[broker].through for broker in committed | self._proposed_in_sync)
        if on_every_disk <= self._high_watermark:
            return None
        self._high_watermark = EndOffset(on_every_disk)
        return self._high_watermark
