"""The follower's view of one partition: what to ask its leader for, and what to do with the answer.

Called by broker/replicas/partition.py and broker/replicas/fetcher.py, which carry out the effects returned here. Every
value in a leader's answer is checked here first: none may reach an assert (rule A11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, EndOffset, LeaderEpoch, SyncedOffset

NOTHING = EndOffset(0)
EpochEnds = Callable[[int], tuple[int, int] | None]
"""The largest epoch of our log at or below the one asked for, and where it ends; None: newer than any here."""


class SentFetch(NamedTuple):
    """A fetch that was sent: its answer is taken only by a replica whose position has not changed since."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    offset: SyncedOffset
    last_epoch: int
    """The epoch of the record before `offset`, or -1. It tells a log that was cut back and grew again to the same end
    from the one before."""


class Answered(NamedTuple):
    """One partition's part of a leader's answer, as it came."""

    error: int
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None
    has_records: bool


class Append(NamedTuple):
    """Append the records of the answer, if its first batch begins at our end; then take the high watermark."""


class Truncate(NamedTuple):
    """Cut the log back to this offset: later records are not on the leader's history."""

    offset: EndOffset


class StartOver(NamedTuple):
    """The leader no longer has the records that we lack, or never had those that we deleted: begin at its start."""

    offset: EndOffset


class Failed(NamedTuple):
    """The leader's history contradicts records committed here: this replica stops, and keeps its log."""

    why: str


class BackOff(NamedTuple):
    """Ask again later: the leader is not ready, or a new one is being elected."""

    error: int


class Stale(NamedTuple):
    """The answer belongs to another position or another leader."""


Todo = Append | Truncate | StartOver | Failed | BackOff | Stale


class FollowerReplica:
    """Follows one leader in one epoch."""

    __slots__ = ("_epoch_ends", "agreed", "committed_before", "epoch", "failed", "heard", "high_watermark", "lasting",
                 "leader", "leader_high_watermark", "overruled", "unfitting")  # fmt: skip

    def __init__(
        self,
        *,
        leader: BrokerId,
        epoch: LeaderEpoch,
        high_watermark: EndOffset,
        epoch_ends: EpochEnds,
        lasting: bool = True,
        overruled: bool = False,
        committed_before: EndOffset = NOTHING,
    ) -> None:
        """`lasting`: committed records stay committed. Without syncs, or if any replica may lead, they may be lost.

        `overruled`: a leader was elected uncleanly after our records were written; until our log agrees with the
        present leader's, that leader may lack committed records. `committed_before`: the high watermark in our
        checkpoint, from before a start; the leader may not have told us of it yet.
        """
        self.leader = leader
        self.epoch = epoch
        self.high_watermark = high_watermark
        self.committed_before = committed_before
        self.leader_high_watermark = EndOffset(0)
        self._epoch_ends = epoch_ends
        self.lasting = lasting
        self.overruled = overruled
        self.unfitting: tuple[EndOffset, int] | None = None
        """Our end, and the base offset of the leader's batch that begins before it, by the last answer."""
        self.agreed = False
        """True once the leader has found our log to be on its history."""
        self.failed: str | None = None
        self.heard = False
        """True once the leader has answered as the leader of this epoch."""

    @property
    def keeps_committed(self) -> bool:
        """True if the leader holds every record that was committed here."""
        return self.lasting and (self.agreed or not self.overruled)

    def go_on_with(self, epoch_ends: EpochEnds) -> None:
        """Use another log: the replica has moved to another directory."""
        self._epoch_ends = epoch_ends

    def ask(self, *, synced_through: SyncedOffset, end_offset: EndOffset, last_epoch: int) -> SentFetch | None:
        """The next fetch, a receipt for all records on disk (rule A2); None while records wait for their sync."""
        if self.failed is not None or int(synced_through) != int(end_offset):
            return None
        return SentFetch(self.leader, self.epoch, synced_through, last_epoch)

    def on_answer(self, asked: SentFetch, answer: Answered, *, end_offset: EndOffset, last_epoch: int) -> Todo:
        """The effect of an answer; the caller carries it out."""
        if self.failed is not None or asked != SentFetch(self.leader, self.epoch, SyncedOffset(end_offset), last_epoch):
            return Stale()
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE and self._lies_elsewhere(answer, end_offset):
            return StartOver(EndOffset(answer.log_start_offset))
        if answer.error != ErrorCode.NONE:
            return BackOff(answer.error)
        self.heard = True
        if answer.diverging is not None:
            return self._cut_back(*answer.diverging, end_offset=end_offset)
        if answer.high_watermark < 0:
            return BackOff(ErrorCode.UNKNOWN_SERVER_ERROR)
        self.agreed = True
        return Append()

    def on_unfitting(
        self, leaders_start: int, *, end_offset: EndOffset, base_offset: int, cached: bool
    ) -> StartOver | None:
        """The leader's records do not continue at our end: begin at its start if it has deleted all that we hold.

        The leader cannot tell then whether our log is on its history, and its log may start inside the batch that we
        lack. If the log is `cached` (written without syncs), a crash may have left us other batches of the same epoch:
        begin there as well. No checksum covers `base_offset`, the first batch's: it is believed when a second answer
        says it.
        """
        if leaders_start >= end_offset:
            return StartOver(EndOffset(leaders_start))
        if not cached or self.keeps_committed or leaders_start < 0:
            return None
        before, self.unfitting = self.unfitting, (end_offset, base_offset)
        return StartOver(EndOffset(leaders_start)) if before == self.unfitting else None

    def _lies_elsewhere(self, answer: Answered, end_offset: int) -> bool:
        """True if our end cannot be reached from the leader's log.

        Our end may be above the leader's if committed records need not last: we deleted records that the leader has
        lost.
        """
        if answer.log_start_offset > end_offset:
            return True
        return not self.keeps_committed and answer.log_start_offset >= 0 and answer.high_watermark < end_offset

    def _cut_back(self, epoch: int, leader_end: int, *, end_offset: EndOffset) -> Todo:
        """Cut back to where both histories agree, as far as this answer shows (KIP-595); the next one shows more."""
        if epoch < 0 or leader_end < 0:
            return BackOff(ErrorCode.UNKNOWN_SERVER_ERROR)
        own = self._epoch_ends(epoch)
        target = min(leader_end, end_offset) if own is None else min(leader_end, own[1], end_offset)
        if target >= end_offset:  # nothing to cut: the follower would ask for ever
            return BackOff(ErrorCode.UNKNOWN_SERVER_ERROR)
        if not self.keeps_committed:
            self.high_watermark = min(self.high_watermark, EndOffset(target))
            self.committed_before = min(self.committed_before, EndOffset(target))
        committed = max(self.high_watermark, self.committed_before)
        if target < committed:
            self.failed = (
                f"leader {self.leader} in epoch {self.epoch} would have us cut back to {target}, below what was "
                f"committed here, {committed}"
            )
            return Failed(self.failed)
        return Truncate(EndOffset(target))

    def on_high_watermark(self, leaders: int, *, synced_through: SyncedOffset) -> EndOffset | None:
        """Take the leader's high watermark; return our own new one, or None if it did not move."""
        self.leader_high_watermark = EndOffset(max(0, leaders))
        return self.on_synced(synced_through)

    def on_synced(self, synced_through: SyncedOffset) -> EndOffset | None:
        """Raise our high watermark to the leader's, as far as our own disk holds the records."""
        committed = min(self.leader_high_watermark, synced_through)
        if committed <= self.high_watermark:
            return None
        self.high_watermark = EndOffset(committed)
        return self.high_watermark

    def on_started_over(self, offset: EndOffset) -> None:
        """Note that our log was emptied; its records were committed and deleted, or need not last."""
        self.high_watermark = offset if not self.keeps_committed else max(self.high_watermark, offset)
