"""Tests of what a follower asks for, and of how it takes an answer (rules A2, A11)."""

from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.replication.follower import (
    Answered,
    Append,
    BackOff,
    Failed,
    FollowerReplica,
    SentFetch,
    Stale,
    StartOver,
    Truncate,
)

ASKED = SentFetch(1, 5, 10, 4)


def a_follower(*, high_watermark=0, epoch_ends=lambda asked: (asked, 10), **fields):
    return FollowerReplica(leader=1, epoch=5, high_watermark=high_watermark, epoch_ends=epoch_ends, **fields)


def answered(*, error=0, high_watermark=8, log_start_offset=0, diverging=None, has_records=True):
    return Answered(error, high_watermark, log_start_offset, diverging, has_records)


def test_a2_a_follower_asks_from_what_is_on_its_disk():
    assert a_follower().ask(synced_through=10, end_offset=10, last_epoch=4) == ASKED


def test_a2_nothing_is_asked_while_something_waits_for_its_sync():
    assert a_follower().ask(synced_through=9, end_offset=10, last_epoch=4) is None


def test_a11_an_answer_to_what_was_asked_is_appended():
    assert a_follower().on_answer(ASKED, answered(), end_offset=10, last_epoch=4) == Append()


@pytest.mark.parametrize(
    "asked", [SentFetch(2, 5, 10, 4), SentFetch(1, 4, 10, 4), SentFetch(1, 5, 9, 4), SentFetch(1, 5, 10, 3)]
)
def test_a11_an_answer_of_another_leader_epoch_or_place_is_left_alone(asked):
    assert a_follower().on_answer(asked, answered(), end_offset=10, last_epoch=4) == Stale()


def test_a11_an_answer_that_was_overtaken_does_not_cut_back_what_came_after_the_cut():
    """Two answers say to cut back from 10; the second arrives after newer records are on disk and were counted."""
    follower = a_follower(high_watermark=8, epoch_ends=lambda asked: (asked, 9))
    diverging = answered(diverging=(4, 9))
    assert follower.on_answer(ASKED, diverging, end_offset=10, last_epoch=4) == Truncate(9)
    receipt = follower.ask(synced_through=10, end_offset=10, last_epoch=5)
    assert receipt == SentFetch(1, 5, 10, 5)
    assert follower.on_answer(ASKED, diverging, end_offset=10, last_epoch=5) == Stale()


def test_a11_whoever_holds_only_what_its_leader_has_deleted_begins_at_its_start():
    said = {"end_offset": 10, "base_offset": 8, "cached": False}
    assert a_follower(high_watermark=6).on_unfitting(10, **said) == StartOver(10)
    assert a_follower(high_watermark=6).on_unfitting(9, **said) is None


def test_a_log_whose_end_lies_inside_a_batch_of_its_leader_is_started_over_where_records_need_not_last():
    """Leader and follower lost what was not synced, and the epoch went on with other batches."""
    follower = a_follower(high_watermark=0, lasting=False)
    said = {"end_offset": 8, "cached": True}
    assert follower.on_unfitting(0, base_offset=6, **said) is None, "no checksum covers where a batch begins"
    assert follower.on_unfitting(0, base_offset=4, **said) is None, "another answer"
    assert follower.on_unfitting(0, base_offset=4, **said) == StartOver(0)
    assert follower.on_unfitting(-1, base_offset=4, **said) is None


def test_a_synced_log_is_not_started_over_for_an_answer_that_begins_before_its_end():
    follower = a_follower(high_watermark=0, lasting=False)
    for _ in range(3):
        assert follower.on_unfitting(0, end_offset=8, base_offset=6, cached=False) is None


def test_a11_a_follower_below_its_leaders_start_begins_there():
    follower = a_follower(high_watermark=6)
    below = answered(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=30)
    assert follower.on_answer(ASKED, below, end_offset=10, last_epoch=4) == StartOver(30)
    follower.on_started_over(30)
    assert follower.high_watermark == 30


def test_a_log_that_was_emptied_behind_its_leaders_end_is_started_over_where_records_need_not_last():
    """DeleteRecords emptied it, and its leader lost those records before a sync: neither end can reach the other."""
    follower = a_follower(high_watermark=10, lasting=False)
    behind = answered(error=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=3, log_start_offset=0)
    assert follower.on_answer(ASKED, behind, end_offset=10, last_epoch=4) == StartOver(0)
    follower.on_started_over(0)
    assert follower.high_watermark == 0
    durable = a_follower(high_watermark=10)
    assert durable.on_answer(ASKED, behind, end_offset=10, last_epoch=4) == BackOff(ErrorCode.OFFSET_OUT_OF_RANGE)


def test_a_divergent_tail_is_cut_to_where_the_epoch_ends_with_the_leader():
    diverging = answered(diverging=(4, 7))
    assert a_follower(high_watermark=7).on_answer(ASKED, diverging, end_offset=10, last_epoch=4) == Truncate(7)


def test_an_epoch_that_ended_earlier_here_is_cut_there():
    follower = a_follower(epoch_ends=lambda asked: (3, 5))
    assert follower.on_answer(ASKED, answered(diverging=(4, 7)), end_offset=10, last_epoch=4) == Truncate(5)


def test_a11_told_to_cut_below_its_high_watermark_a_follower_fails_itself():
    follower = a_follower(high_watermark=8)
    assert isinstance(follower.on_answer(ASKED, answered(diverging=(4, 7)), end_offset=10, last_epoch=4), Failed)
    assert follower.ask(synced_through=10, end_offset=10, last_epoch=4) is None
    assert follower.on_answer(ASKED, answered(), end_offset=10, last_epoch=4) == Stale()


def test_a11_what_was_committed_before_a_start_is_not_cut_off_either():
    """The leader has an older copy of its directory, and lacks records that this follower checkpointed as committed."""
    follower = a_follower(high_watermark=0, committed_before=8)
    failed = follower.on_answer(ASKED, answered(diverging=(4, 7)), end_offset=10, last_epoch=4)
    assert isinstance(failed, Failed) and "cut back to 7, below what was committed here, 8" in failed.why
    assert follower.ask(synced_through=10, end_offset=10, last_epoch=4) is None
    behind = a_follower(high_watermark=0, committed_before=7)
    assert behind.on_answer(ASKED, answered(diverging=(4, 7)), end_offset=10, last_epoch=4) == Truncate(7)


def test_what_was_committed_before_a_start_is_cut_off_where_it_need_not_last():
    for fields in ({"lasting": False}, {"overruled": True}):
        follower = a_follower(high_watermark=0, committed_before=8, **fields)
        assert follower.on_answer(ASKED, answered(diverging=(4, 7)), end_offset=10, last_epoch=4) == Truncate(7)
        assert follower.committed_before == 7


def test_where_what_is_committed_may_be_lost_a_follower_cuts_it_off_too():
    follower = a_follower(high_watermark=8, lasting=False)
    assert follower.on_answer(ASKED, answered(diverging=(4, 7)), end_offset=10, last_epoch=4) == Truncate(7)
    assert follower.high_watermark == 7


def test_a_follower_of_an_uncleanly_elected_leader_cuts_what_was_committed_until_both_agree():
    follower = a_follower(high_watermark=8, overruled=True)
    assert not follower.keeps_committed
    assert follower.on_answer(ASKED, answered(diverging=(4, 7)), end_offset=10, last_epoch=4) == Truncate(7)
    assert follower.high_watermark == 7
    assert follower.on_answer(SentFetch(1, 5, 7, 4), answered(high_watermark=7), end_offset=7, last_epoch=4) == Append()
    assert follower.on_high_watermark(7, synced_through=7) is None
    assert follower.keeps_committed
    again = follower.on_answer(SentFetch(1, 5, 7, 4), answered(diverging=(4, 3)), end_offset=7, last_epoch=4)
    assert isinstance(again, Failed), "there is no second history to come to"


def test_a_log_whose_start_an_uncleanly_elected_leader_never_reached_is_started_over():
    follower = a_follower(high_watermark=10, overruled=True)
    behind = answered(error=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=3, log_start_offset=0)
    assert follower.on_answer(ASKED, behind, end_offset=10, last_epoch=4) == StartOver(0)
    follower.on_started_over(0)
    assert follower.high_watermark == 0


@pytest.mark.parametrize("diverging", [(-1, -1), (4, -1), (-1, 3), (4, 10), (4, 99)])
def test_a11_a_divergence_that_leads_nowhere_is_asked_about_again_later(diverging):
    assert isinstance(
        a_follower().on_answer(ASKED, answered(diverging=diverging), end_offset=10, last_epoch=4), BackOff
    )


def test_an_error_is_a_reason_to_wait():
    fenced = answered(error=ErrorCode.FENCED_LEADER_EPOCH)
    assert a_follower().on_answer(ASKED, fenced, end_offset=10, last_epoch=4) == BackOff(ErrorCode.FENCED_LEADER_EPOCH)


def test_committed_here_is_no_more_than_what_is_on_our_disk():
    follower = a_follower()
    assert follower.on_high_watermark(9, synced_through=6) == 6
    assert follower.on_synced(12) == 9
    assert follower.on_high_watermark(4, synced_through=12) is None
    assert follower.high_watermark == 9
