"""Tests of which replicas join the in-sync set and which leave it (rules A3, A4, A5)."""

from __future__ import annotations

from ottla.replication.in_sync import InSyncKeeper
from ottla.replication.leader import LeaderReplica, ReplicaKey

LAG_MS = 30_000


class Place:
    """A leader on broker 1 with the keeper of its in-sync set; all brokers are alive unless stated."""

    def __init__(self, *, in_sync=(1, 2, 3), high_watermark=0, epoch_start=0, synced_through=10, log_start=0):
        self.end = 10
        self.leader = LeaderReplica(
            me=1,
            epoch=5,
            epoch_start=epoch_start,
            epoch_ends=lambda asked: (asked, 1000),
            replicas=(1, 2, 3),
            in_sync=frozenset(in_sync),
            partition_epoch=7,
            min_in_sync=1,
            high_watermark=high_watermark,
            synced_through=synced_through,
            log_start=log_start,
            registered={1: 10, 2: 20, 3: 30},
            now_ms=0,
        )
        self.keeper = InSyncKeeper(self.leader)
        self.spoke = {}
        self.eligible = {1, 2, 3}

    def fetched(self, broker, through, *, now_ms, log_start=0):
        self.spoke[broker] = now_ms
        key = ReplicaKey(broker, broker * 10)
        self.leader.on_fetch(
            key,
            leader_epoch=5,
            last_epoch=5,
            synced_through=through,
            end_offset=self.end,
            now_ms=now_ms,
            log_start=log_start,
        )

    def look(self, now_ms):
        proposal = self.keeper.look(
            end_offset=self.end,
            spoke_ms=self.spoke,
            eligible=self.eligible,
            lag_max_ms=LAG_MS,
            now_ms=now_ms,
        )
        if proposal is not None:
            self.proposal = proposal
        return None if proposal is None else [broker for broker, _ in proposal.in_sync]


def test_a_replica_that_says_nothing_leaves_after_the_longest_lag():
    place = Place()
    place.fetched(2, 10, now_ms=100)
    assert place.look(LAG_MS) is None
    place.spoke[2] = LAG_MS
    assert place.look(LAG_MS + 1) == [1, 2]


def test_a_replica_at_our_end_stays_as_long_as_its_broker_speaks():
    place = Place(in_sync=(1, 2))
    place.eligible = {1, 2}
    place.fetched(2, 10, now_ms=0)
    for turn in range(1, 10):
        place.spoke[2] = turn * 15_000
        assert place.look(turn * 15_000) is None
    assert place.look(9 * 15_000 + LAG_MS + 1) == [1]


def test_a_replica_that_speaks_but_never_catches_up_leaves():
    place = Place(in_sync=(1, 2))
    for turn in range(1, 4):
        place.end += 100
        place.fetched(2, turn, now_ms=turn * 10_000)
    assert place.look(LAG_MS) is None
    place.fetched(2, 9, now_ms=LAG_MS + 1)
    assert place.look(LAG_MS + 1) == [1]


def test_a_replica_is_late_from_when_it_fell_behind_not_from_its_last_receipt():
    place = Place(in_sync=(1, 2))
    place.fetched(2, 10, now_ms=0)
    place.spoke[2] = 1_000_000
    assert place.look(1_000_000) is None
    place.end = 20
    place.spoke[2] = 1_015_000
    assert place.look(1_015_000) is None
    assert place.look(1_015_000 + LAG_MS) is None
    assert place.look(1_015_001 + LAG_MS) == [1]


def test_who_holds_what_is_committed_joins():
    place = Place(in_sync=(1,), high_watermark=8, synced_through=8)
    place.fetched(2, 7, now_ms=1)
    assert place.look(1) is None
    place.fetched(2, 8, now_ms=2)
    assert place.look(2) == [1, 2]


def test_who_has_not_reached_this_epoch_does_not_join():
    place = Place(in_sync=(1,), high_watermark=5, epoch_start=8, synced_through=5)
    place.fetched(2, 7, now_ms=1)
    assert place.look(1) is None
    place.fetched(2, 8, now_ms=2)
    assert place.look(2) == [1, 2]


def test_who_has_shown_nothing_does_not_join_an_empty_partition():
    assert Place(in_sync=(1,)).look(1) is None


def test_a_fenced_or_draining_broker_does_not_join():
    place = Place(in_sync=(1,))
    place.fetched(2, 10, now_ms=1)
    place.eligible = {1, 3}
    assert place.look(1) is None


def test_a4_one_proposal_is_in_flight():
    place = Place(in_sync=(1,))
    place.fetched(2, 10, now_ms=1)
    assert place.look(1) == [1, 2]
    place.fetched(3, 10, now_ms=2)
    assert place.look(2) is None
    place.leader.on_applied(8, frozenset({1, 2}), (1, 2, 3), now_ms=3)
    assert place.look(3) == [1, 2, 3]


def test_a4_a_proposal_of_which_nobody_knows_goes_on_counting():
    """This holds also after the next proposal was refused: the first may still be appended."""
    place = Place(in_sync=(1,), high_watermark=10)
    place.fetched(2, 10, now_ms=1)
    assert place.look(1) == [1, 2]
    place.keeper.on_unknown(place.proposal)
    assert place.look(2) == [1, 2]
    assert place.keeper.on_refused(place.proposal, rank=1, now_ms=2) is None
    assert place.leader.proposed_in_sync == {1, 2}
    assert place.leader.on_own_sync(12, now_ms=3) is None
    place.leader.on_applied(8, frozenset({1}), (1, 2, 3), now_ms=4)
    assert place.leader.high_watermark == 12


def test_a_proposal_that_was_refused_for_good_counts_no_more():
    """Otherwise a replica that was to join, and died just then, would block every commit until it is back."""
    place = Place(in_sync=(1,), high_watermark=10)
    place.fetched(2, 10, now_ms=1)
    assert place.look(1) == [1, 2]
    assert place.leader.on_own_sync(12, now_ms=2) is None
    assert place.keeper.on_refused(place.proposal, rank=1, now_ms=3) == 12
    assert place.leader.proposed_in_sync == {1}


def test_a_refusal_that_comes_late_ends_no_other_proposal():
    place = Place(in_sync=(1,), high_watermark=10)
    place.fetched(2, 10, now_ms=1)
    assert place.look(1) == [1, 2]
    first = place.proposal
    place.leader.on_applied(8, frozenset({1}), (1, 2, 3), now_ms=2)
    assert place.look(3) == [1, 2]
    assert place.keeper.on_refused(first, rank=1, now_ms=4) is None
    assert place.leader.proposed_in_sync == {1, 2}
    assert place.look(5) is None


def test_a4_after_three_conflicts_one_waits_by_rank():
    place = Place(in_sync=(1,))
    place.fetched(2, 10, now_ms=1)
    for now_ms in (1, 2, 3):
        assert place.look(now_ms) == [1, 2]
        place.keeper.on_refused(place.proposal, rank=2, now_ms=now_ms)
    assert place.look(42) is None
    assert place.look(43) == [1, 2]


def test_who_left_for_its_silence_does_not_join_before_it_speaks_again():
    """Without writes it holds every committed record, so it would leave and join for ever."""
    place = Place(high_watermark=10)
    for broker in (2, 3):
        place.fetched(broker, 10, now_ms=0)
    place.spoke[3] = LAG_MS + 1
    assert place.look(LAG_MS + 1) == [1, 3]
    place.keeper.on_done(place.proposal)
    place.leader.on_applied(8, frozenset({1, 3}), (1, 2, 3), now_ms=LAG_MS + 2)
    assert place.look(LAG_MS + 2) is None
    place.spoke[2] = LAG_MS + 3
    assert place.look(LAG_MS + 4) == [1, 2, 3]


def test_a5_a_late_tick_evicts_nobody():
    place = Place(in_sync=(1, 2))
    place.fetched(2, 10, now_ms=100)
    place.end = 20
    place.leader.on_late_tick(60_000)
    assert place.look(60_200) is None


def test_who_joins_is_given_the_whole_lag_to_catch_up():
    place = Place(in_sync=(1,), high_watermark=5, synced_through=5)
    place.end = 1000
    place.fetched(2, 6, now_ms=LAG_MS * 2)
    assert place.look(LAG_MS * 2) == [1, 2]
    place.leader.on_applied(8, frozenset({1, 2}), (1, 2, 3), now_ms=LAG_MS * 2)
    assert place.look(LAG_MS * 3) is None
    assert place.look(LAG_MS * 3 + 1) == [1]


def test_who_joins_while_it_speaks_of_other_partitions_does_not_leave_at_once():
    """A fetch session does not repeat a partition of which there is nothing new to say."""
    place = Place(in_sync=(1,), high_watermark=5, synced_through=5)
    place.end = 1000
    place.fetched(2, 6, now_ms=100)
    place.spoke[2] = LAG_MS * 2
    assert place.look(LAG_MS * 2) == [1, 2]
    place.keeper.on_done(place.proposal)
    place.leader.on_applied(8, frozenset({1, 2}), (1, 2, 3), now_ms=LAG_MS * 2)
    assert place.look(LAG_MS * 2 + 1) is None
    assert place.look(LAG_MS * 3 + 1) == [1]


def test_who_still_holds_what_was_deleted_for_good_does_not_join():
    place = Place(in_sync=(1, 2))
    place.leader.promise_start(4)
    place.fetched(2, 10, now_ms=1, log_start=4)
    place.fetched(3, 10, now_ms=1, log_start=3)
    assert place.look(2) is None
    place.fetched(3, 10, now_ms=3, log_start=4)
    assert place.look(4) == [1, 2, 3]


def test_who_holds_what_an_earlier_leader_said_was_deleted_does_not_join_a_later_one():
    """Such a replica may be new: it has fetched the whole batch in the middle of which the log starts."""
    place = Place(in_sync=(1, 2), log_start=4)
    place.fetched(2, 10, now_ms=1, log_start=4)
    place.fetched(3, 10, now_ms=1, log_start=3)
    assert place.look(2) is None
    place.fetched(3, 10, now_ms=3, log_start=4)
    assert place.look(4) == [1, 2, 3]
