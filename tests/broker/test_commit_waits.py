"""Waits for a commit: in offset order, each to its own deadline, all of them to the end of the epoch."""

from __future__ import annotations

from ottla.broker.waiting import CommitWaits, Deadlines
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import EndOffset, LeaderEpoch
from ottla.kernel.story import Slot
from ottla.sim.loop import SimLoop


class Line:
    """Waits with a clock of their own."""

    def __init__(self) -> None:
        self.loop = SimLoop(1)
        self.waits = CommitWaits(Deadlines(self.loop), LeaderEpoch(3))

    def add(self, through: int, timeout_ms: int = 1000) -> Slot[ErrorCode]:
        return self.waits.add(EndOffset(through), self.loop.mono_ms() + timeout_ms)

    def committed(self, offset: int, verdict: ErrorCode = ErrorCode.NONE) -> None:
        self.waits.committed(EndOffset(offset), verdict)


def test_whoever_waited_for_no_more_than_the_watermark_is_released():
    line = Line()
    first, second, third = line.add(1), line.add(5), line.add(6)
    line.committed(5)
    assert (first.result(), second.result()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert not third.full


def test_a_duplicate_that_waits_for_an_earlier_offset_is_released_in_its_turn():
    line = Line()
    new, duplicate = line.add(10), line.add(4)
    line.committed(4)
    assert duplicate.full
    assert not new.full


def test_too_few_in_sync_is_said_with_the_release():
    line = Line()
    wait = line.add(1)
    line.committed(1, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert wait.result() is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_each_wait_ends_at_its_own_deadline():
    line = Line()
    late, soon = line.add(1, timeout_ms=500), line.add(2, timeout_ms=100)
    line.loop.run_for(100)
    assert soon.result() is ErrorCode.REQUEST_TIMED_OUT
    assert not late.full
    line.loop.run_for(399)
    assert not late.full
    line.loop.run_for(1)
    assert late.result() is ErrorCode.REQUEST_TIMED_OUT


def test_a_deadline_says_nothing_to_those_who_came_later():
    line = Line()
    line.add(1, timeout_ms=100)
    line.loop.run_for(50)
    second = line.add(2, timeout_ms=100)
    line.loop.run_for(60)
    assert not second.full
    line.loop.run_for(40)
    assert second.full


def test_a_commit_just_before_the_deadline_counts():
    line = Line()
    wait = line.add(1, timeout_ms=100)
    line.loop.run_for(99)
    line.committed(1)
    line.loop.run_for(10)
    assert wait.result() is ErrorCode.NONE


def test_the_end_of_the_epoch_ends_every_wait():
    line = Line()
    waits = [line.add(1), line.add(2)]
    line.waits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [wait.result() for wait in waits] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    line.loop.run_for(2000)  # the old deadlines find no waiting request


def test_a_released_wait_may_add_another_at_once():
    line = Line()
    second: list[Slot[ErrorCode]] = []
    line.add(1).when_full(lambda: second.append(line.add(2)))
    line.committed(1)
    line.committed(2)
    assert second[0].result() is ErrorCode.NONE
