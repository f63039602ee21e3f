"""The starts of a partition's replicas: DeleteRecords answers once a new leader could not undo it.

DeleteRecords waits here; the partition tells of a start that has moved, and of the end of a leadership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.waiting import CommitWaits
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import EndOffset, LeaderEpoch
from ottla.kernel.story import Slot

if TYPE_CHECKING:
    from ottla.broker.replicas.surroundings import Surroundings
    from ottla.replication.leader import LeaderReplica


class LogStarts:
    """The requests that wait until every replica in sync starts at their offset or later."""

    __slots__ = ("_around", "_waits")

    def __init__(self, around: Surroundings, epoch: LeaderEpoch) -> None:
        self._around = around
        self._waits = CommitWaits(around.deadlines, epoch)

    def begin(self, epoch: LeaderEpoch) -> None:
        """Take requests of a new leader epoch."""
        self._waits = CommitWaits(self._around.deadlines, epoch)

    def fail(self, error: ErrorCode) -> None:
        """Answer all that wait."""
        self._waits.fail(error)

    def everywhere(self, leader: LeaderReplica | None, start: int, timeout_ms: int) -> Slot[ErrorCode]:
        """NONE once every replica in sync starts at `start` or later, on disk: a new leader does not undo it."""
        if leader is None:
            slot: Slot[ErrorCode] = Slot()
            slot.fill(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return slot
        leader.promise_start(start)
        slot = self._waits.add(EndOffset(start), self._around.clock.mono_ms() + timeout_ms)
        self.moved(leader)
        return slot

    def moved(self, leader: LeaderReplica | None) -> None:
        """Answer those whose offset every replica in sync has reached."""
        if leader is not None and self._waits.any:
            may_answer = self._around.may_lead()
            verdict = ErrorCode.NONE if may_answer else ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._waits.committed(EndOffset(leader.starts_everywhere()), verdict)
