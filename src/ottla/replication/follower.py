"""The follower's view of one partition: what to ask its leader for, and what to do with the answer.

Comes from broker/replicas/partition.py and broker/replicas/fetcher.py, which carry out what is returned here. Whatever
a leader says is judged here first: nothing of it may reach an assert (rule A11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, EndOffset, LeaderEpoch, SyncedOffset

NOTHING = EndOffset(0)
EpochEnds = Callable[[int], tuple[int, int] | None]
"""The largest epoch of our log at or below the one asked for, and where it ends; None: newer than any here."""


class Asked(NamedTuple):
    """A fetch that left: the answer is taken only by a replica that stands where this was asked."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    offset: SyncedOffset
    last_epoch: int
    """Of the record before `offset`; -1 where there is none. A log that was cut back and has grown again to the same
    end is another one."""


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
    """Cut the log back to this offset: what lies behind is not on the leader's history."""

    offset: EndOffset


class StartOver(NamedTuple):
    """The leader no longer has what we lack, or never had what we deleted: drop all, begin where its log begins."""

    offset: EndOffset


class Failed(NamedTuple):
    """The leader's history contradicts what was committed here: this replica stops, and keeps what it has."""

    why: str


class BackOff(NamedTuple):
    """Ask again later: the leader, or who it is, is not settled."""

    error: int


class Stale(NamedTuple):
    """The answer belongs to another place or another leader."""


Todo = Append | Truncate | StartOver | Failed | BackOff | Stale


class FollowerReplica:
    """Follows one leader in one epoch."""

    __slots__ = ("_epoch_ends", "agreed", "committed_before", "epoch", "failed", "heard", "high_watermark", "lasting",
                 "leader", "leader_high_watermark", "overruled")  # fmt: skip

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
        """`lasting`: what is committed stays so. It need not, where it is not synced, or any replica may lead.

        `overruled`: a leader was elected uncleanly since our records were written: until we agree with the one that we
        follow, it may lack what was committed. `committed_before`: the high watermark by our checkpoint, from before a
        start: the leader need not have told us of it yet.
        """
        self.leader = leader
        self.epoch = epoch
        self.high_watermark = high_watermark
        self.committed_before = committed_before
        self.leader_high_watermark = EndOffset(0)
        self._epoch_ends = epoch_ends
        self.lasting = lasting
        self.overruled = overruled
        self.agreed = False
        """Whether the leader has found our log to lie on its history."""
        self.failed: str | None = None
        self.heard = False
        """Whether the leader has answered as the leader that it is."""

    @property
    def keeps_committed(self) -> bool:
        """Whether the leader holds all that was committed here."""
        return self.lasting and (self.agreed or not self.overruled)

    def go_on_with(self, epoch_ends: EpochEnds) -> None:
        """The log has moved to another directory."""
        self._epoch_ends = epoch_ends

    def ask(self, *, synced_through: SyncedOffset, end_offset: EndOffset, last_epoch: int) -> Asked | None:
        """The next fetch: a receipt for what is on disk (rule A2); None while something waits for its sync."""
        if self.failed is not None or int(synced_through) != int(end_offset):
            return None
        return Asked(self.leader, self.epoch, synced_through, last_epoch)

    def on_answer(self, asked: Asked, answer: Answered, *, end_offset: EndOffset, last_epoch: int) -> Todo:
        """The effects that an answer asks for; nothing is done yet."""
        if self.failed is not None or asked != Asked(self.leader, self.epoch, SyncedOffset(end_offset), last_epoch):
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

    def on_unfitting(self, leaders_start: int, *, end_offset: EndOffset) -> StartOver | None:
        """The leader's records do not go on from our end: where it has deleted all that we hold, begin at its start.

        It cannot tell then whether we lie on its history, and its log may start inside of the batch that we lack.
        """
        return StartOver(EndOffset(leaders_start)) if leaders_start >= end_offset else None

    def _lies_elsewhere(self, answer: Answered, end_offset: int) -> bool:
        """Whether our end cannot be reached from the leader's log.

        It may lie behind its end where committed records need not last: we have deleted them, and it has lost them.
        """
        if answer.log_start_offset > end_offset:
            return True
        return not self.keeps_committed and answer.log_start_offset >= 0 and answer.high_watermark < end_offset

    def _cut_back(self, epoch: int, leader_end: int, *, end_offset: EndOffset) -> Todo:
        """Back to where both histories agree, as far as one answer shows it (KIP-595): the next answer shows more."""
        if epoch < 0 or leader_end < 0:
            return BackOff(ErrorCode.UNKNOWN_SERVER_ERROR)
        own = self._epoch_ends(epoch)
        target = min(leader_end, end_offset) if own is None else min(leader_end, own[1], end_offset)
        if target >= end_offset:  # there would be nothing to cut, and so no end of asking
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
        """The leader said how far is committed; our own new high watermark, or None where it did not move."""
        self.leader_high_watermark = EndOffset(max(0, leaders))
        return self.on_synced(synced_through)

    def on_synced(self, synced_through: SyncedOffset) -> EndOffset | None:
        """Committed here is what the leader says is, as far as our own disk holds it."""
        committed = min(self.leader_high_watermark, synced_through)
        if committed <= self.high_watermark:
            return None
        self.high_watermark = EndOffset(committed)
        return self.high_watermark

    def on_started_over(self, offset: EndOffset) -> None:
        """Everything below the leader's start was committed and is deleted, or need not last."""
        self.high_watermark = offset if not self.keeps_committed else max(self.high_watermark, offset)
