"""Tests of what a leader counts as committed (rules A1 to A4)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.errors import ErrorCode
from ottla.replication.leader import Diverged, FetchRefused, LeaderReplica, ReplicaKey


def one_epoch(asked):
    return None if asked > 5 else (asked, 1000 if asked == 5 else 0)


def a_leader(*, in_sync=(1,), replicas=None, synced_through=0, min_in_sync=1, high_watermark=0, epoch_ends=one_epoch,
             epoch_start=0, arriving=0):  # fmt: skip
    return LeaderReplica(
        me=1,
        epoch=5,
        epoch_start=epoch_start,
        epoch_ends=epoch_ends,
        partition_epoch=7,
        replicas=tuple(replicas or in_sync),
        in_sync=frozenset(in_sync),
        min_in_sync=min_in_sync,
        high_watermark=high_watermark,
        synced_through=synced_through,
        log_start=0,
        registered={2: 20, 3: 30},
        now_ms=0,
        arriving=arriving,
    )


def fetched(
    leader, broker, through, *, epoch=5, broker_epoch=None, last_epoch=5, end_offset=1000, now_ms=1, log_start=0
):
    key = ReplicaKey(broker, broker * 10 if broker_epoch is None else broker_epoch)
    return leader.on_fetch(
        key,
        leader_epoch=epoch,
        last_epoch=last_epoch,
        synced_through=through,
        end_offset=end_offset,
        now_ms=now_ms,
        log_start=log_start,
    )


def test_alone_in_sync_the_own_disk_sets_the_high_watermark():
    leader = a_leader()
    assert leader.on_own_sync(7, now_ms=1) == 7
    assert leader.on_own_sync(7, now_ms=2) is None


def test_the_slowest_in_sync_disk_sets_the_high_watermark():
    leader = a_leader(in_sync=(1, 2, 3), synced_through=10)
    assert fetched(leader, 2, 10) is None
    assert fetched(leader, 3, 7) == 7


def test_the_own_disk_may_be_the_slowest():
    leader = a_leader(in_sync=(1, 2), synced_through=3)
    assert fetched(leader, 2, 9) == 3
    assert leader.on_own_sync(8, now_ms=2) == 8


def test_a_fetch_of_an_earlier_incarnation_is_no_receipt():
    leader = a_leader(in_sync=(1, 2), synced_through=10)
    assert fetched(leader, 2, 10, broker_epoch=19) == FetchRefused(ErrorCode.STALE_BROKER_EPOCH)
    assert leader.high_watermark == 0


def test_a_fetch_of_another_leader_epoch_is_no_receipt():
    leader = a_leader(in_sync=(1, 2), synced_through=10)
    assert fetched(leader, 2, 10, epoch=4) == FetchRefused(ErrorCode.FENCED_LEADER_EPOCH)
    assert leader.high_watermark == 0


def test_a_broker_that_is_no_replica_gives_no_receipt():
    leader = a_leader(in_sync=(1, 2), synced_through=10)
    assert fetched(leader, 3, 10) == FetchRefused(ErrorCode.UNKNOWN_LEADER_EPOCH)


def test_too_few_in_sync_hold_the_high_watermark():
    leader = a_leader(in_sync=(1,), replicas=(1, 2), min_in_sync=2)
    assert not leader.enough_in_sync
    assert leader.on_own_sync(9, now_ms=1) is None
    leader.on_applied(8, frozenset({1, 2}), (1, 2), now_ms=1)
    assert fetched(leader, 2, 6) == 6


def test_a_minimum_above_the_number_of_replicas_asks_for_all_of_them():
    leader = a_leader(in_sync=(1,), min_in_sync=2)
    assert leader.enough_in_sync
    assert leader.on_own_sync(4, now_ms=1) == 4


def test_replicas_that_are_being_added_ask_for_no_more_in_sync_until_they_have_come():
    leader = a_leader(in_sync=(1,), replicas=(1, 2), min_in_sync=2, arriving=1)
    assert leader.enough_in_sync
    assert leader.on_own_sync(4, now_ms=1) == 4
    leader.on_applied(8, frozenset({1, 2}), (1, 2), now_ms=1)
    leader.on_applied(9, frozenset({1}), (1, 2), now_ms=1)
    assert not leader.enough_in_sync
    assert leader.on_own_sync(9, now_ms=2) is None


def test_a_proposed_replica_counts_before_it_is_committed():
    leader = a_leader(in_sync=(1,), replicas=(1, 2))
    leader.propose(frozenset({1, 2}))
    assert leader.on_own_sync(9, now_ms=1) is None
    assert fetched(leader, 2, 5) == 5


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.integers(0, 50)), max_size=40))
def test_the_high_watermark_never_falls_and_never_passes_a_disk(events):
    leader = a_leader(in_sync=(1, 2, 3))
    held = {1: 0, 2: 0, 3: 0}
    last = 0
    for broker, through in events:
        held[broker] = max(held[broker], through)
        if broker == 1:
            leader.on_own_sync(held[1], now_ms=1)
        else:
            fetched(leader, broker, held[broker])
        assert last <= leader.high_watermark <= min(held.values())
        last = leader.high_watermark


def test_a1_a_fetch_of_a_later_epoch_is_no_receipt():
    leader = a_leader(in_sync=(1, 2), synced_through=10)
    assert fetched(leader, 2, 10, epoch=6) == FetchRefused(ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert leader.high_watermark == 0


def test_a1_a_follower_ahead_in_an_older_epoch_gives_no_receipt():
    leader = a_leader(in_sync=(1, 2), synced_through=10, epoch_ends=lambda asked: {4: (4, 6), 5: (5, 10)}[asked])
    assert fetched(leader, 2, 9, last_epoch=4) == Diverged(4, 6)
    assert leader.high_watermark == 0
    assert fetched(leader, 2, 6, last_epoch=4) == 6


def test_a1_a_follower_of_an_epoch_that_we_never_had_gives_no_receipt():
    leader = a_leader(in_sync=(1, 2), synced_through=10, epoch_ends=lambda asked: (2, 3))
    assert fetched(leader, 2, 3, last_epoch=4) == Diverged(2, 3)
    assert leader.high_watermark == 0


def test_a1_a_follower_beyond_our_end_gives_no_receipt():
    leader = a_leader(in_sync=(1, 2), synced_through=10, epoch_ends=lambda asked: (5, 10))
    assert fetched(leader, 2, 11, end_offset=10) == Diverged(5, 10)
    assert fetched(leader, 2, 11, last_epoch=-1, end_offset=10) == FetchRefused(ErrorCode.OFFSET_OUT_OF_RANGE)


def test_a1_nobody_gives_receipts_in_the_name_of_the_leader():
    leader = a_leader(in_sync=(1, 2))
    assert fetched(leader, 1, 10) == FetchRefused(ErrorCode.UNKNOWN_LEADER_EPOCH)


def test_a3_a_replica_that_leaves_counts_until_its_leaving_is_applied():
    leader = a_leader(in_sync=(1, 2), synced_through=9)
    leader.propose(frozenset({1}))
    assert leader.on_own_sync(10, now_ms=1) is None
    assert leader.on_applied(8, frozenset({1}), (1, 2), now_ms=2) == 10


def test_a4_an_entry_of_no_later_partition_epoch_ends_no_proposal():
    leader = a_leader(in_sync=(1,), replicas=(1, 2))
    leader.propose(frozenset({1, 2}))
    assert leader.on_applied(7, frozenset({1}), (1, 2), now_ms=1) is None
    assert leader.on_own_sync(9, now_ms=1) is None
    assert leader.on_applied(8, frozenset({1}), (1, 2), now_ms=1) == 9


def test_a4_of_two_proposals_neither_is_forgotten():
    leader = a_leader(in_sync=(1,), replicas=(1, 2, 3))
    leader.propose(frozenset({1, 2}))
    leader.propose(frozenset({1, 3}))
    assert fetched(leader, 3, 9) is None
    assert leader.on_own_sync(9, now_ms=1) is None
    assert fetched(leader, 2, 4) == 4


def test_a5_a_late_tick_moves_every_time_forward():
    leader = a_leader(in_sync=(1, 2))
    fetched(leader, 2, 1000, now_ms=100)
    leader.on_late_tick(30_000)
    assert leader.held[2].seen_ms == leader.held[2].caught_up_ms == 30_100


def test_a8_what_a_former_incarnation_held_counts_no_more():
    leader = a_leader(in_sync=(1, 2), synced_through=10)
    fetched(leader, 2, 5)
    leader.on_registered({2: 21, 3: 30}, now_ms=2)
    assert leader.held[2].through == 0
    assert fetched(leader, 2, 6) == FetchRefused(ErrorCode.STALE_BROKER_EPOCH)
    assert fetched(leader, 2, 6, broker_epoch=21) == 6


def test_whoever_reaches_the_end_of_the_last_time_had_caught_up_then():
    leader = a_leader(in_sync=(1, 2))
    fetched(leader, 2, 5, end_offset=10, now_ms=100)
    assert leader.held[2].caught_up_ms == 0
    fetched(leader, 2, 10, end_offset=20, now_ms=200)
    assert leader.held[2].caught_up_ms == 100


def test_a_replica_that_was_at_the_end_later_than_known_has_caught_up_then_and_never_earlier():
    leader = a_leader(in_sync=(1, 2))
    fetched(leader, 2, 1000, now_ms=5)
    leader.caught_up(2, 9)
    assert leader.held[2].caught_up_ms == 9
    leader.caught_up(2, 7)
    assert leader.held[2].caught_up_ms == 9


def test_a_start_that_was_promised_is_not_taken_back():
    leader = a_leader()
    leader.promise_start(4)
    leader.promise_start(2)
    assert leader.promised_start == 4


def test_a_leader_goes_on_with_the_history_of_a_log_that_has_moved():
    leader = a_leader(in_sync=(1, 2))
    leader.go_on_with(lambda asked: (asked, 3))
    assert fetched(leader, 2, 7) == Diverged(5, 3)


def test_a_new_leader_does_not_know_what_was_committed_before_its_watermark_reaches_its_start():
    leader = a_leader(in_sync=(1, 2), synced_through=10, epoch_start=10)
    assert not leader.knows_committed
    fetched(leader, 2, 10)
    assert leader.knows_committed


def test_a6_nothing_is_deleted_for_good_while_others_than_those_in_sync_may_come_to_lead():
    leader = a_leader(in_sync=(1,), replicas=(1, 2, 3), min_in_sync=2)
    leader.promise_start(4)
    assert leader.starts_everywhere() == 0
    leader.on_applied(8, frozenset({1, 2}), (1, 2, 3), now_ms=1)
    assert leader.starts_everywhere() == 0
    fetched(leader, 2, 5, log_start=4)
    assert leader.starts_everywhere() == 4
