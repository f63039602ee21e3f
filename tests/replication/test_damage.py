"""A damaged replica resigns if another can lead, fetches anew as a follower, and keeps its records if it is alone."""

from __future__ import annotations

from ottla.kernel.ids import NO_LEADER
from ottla.replication.damage import (
    FIRST_BACK_OFF_MS,
    FIRST_LEAD_AGAIN_MS,
    LONGEST_BACK_OFF_MS,
    LONGEST_LEAD_AGAIN_MS,
    DamagedReplica,
    Keep,
    Later,
    Refetch,
    Resign,
    Withdraw,
)

ALL = (1, 2, 3)


def look(replica, leader, *, in_sync=ALL, active=ALL, epoch=4, stopped=False, now_ms=0):
    return replica.look(
        leader=leader, leader_epoch=epoch, in_sync=in_sync, active=active, stopped=stopped, now_ms=now_ms
    )


def test_a_leader_resigns_to_another_in_sync_replica_that_lives():
    assert look(DamagedReplica(1), 1) == Resign(4)
    assert look(DamagedReplica(1), 1, in_sync=(1, 3), active=(1, 3)) == Resign(4)


def test_a_leader_that_is_alone_in_sync_keeps_what_it_has():
    assert look(DamagedReplica(1), 1, in_sync=(1,)) == Keep()
    assert look(DamagedReplica(1), 1, in_sync=(1, 2), active=(1, 3)) == Keep(), "2 is fenced or about to stop"


def test_a_follower_fetches_from_its_leader_also_where_it_is_not_in_sync():
    assert look(DamagedReplica(2), 1) == Refetch(1, 4)
    assert look(DamagedReplica(2), 1, in_sync=(1,)) == Refetch(1, 4)


def test_nothing_is_done_while_nobody_leads():
    assert look(DamagedReplica(2), NO_LEADER, in_sync=(2,)) == Later()


def test_who_is_made_to_lead_again_does_so_for_longer_each_time_so_that_another_damaged_one_can_fetch():
    replica, now_ms = DamagedReplica(1), 0
    for leads_for_ms in (FIRST_LEAD_AGAIN_MS, 4000, 8000, 16_000, 32_000, LONGEST_LEAD_AGAIN_MS, LONGEST_LEAD_AGAIN_MS):
        assert look(replica, 1, now_ms=now_ms) == Resign(4)
        assert look(replica, 1, now_ms=now_ms + leads_for_ms - 1) == Later()
        now_ms += leads_for_ms


def test_a_resignation_that_was_refused_is_asked_for_again_and_lengthens_nothing():
    replica = DamagedReplica(1)
    for _ in range(9):
        assert look(replica, 1) == Resign(4)
        replica.on_resign_refused()
    assert look(replica, 1, epoch=5) == Resign(5)
    assert look(replica, 1, epoch=6, now_ms=FIRST_LEAD_AGAIN_MS) == Resign(6)


def test_a_fetch_that_failed_is_tried_again_later_and_later():
    replica = DamagedReplica(2)
    replica.on_refetch_failed(1000)
    assert look(replica, 1, now_ms=1000 + FIRST_BACK_OFF_MS - 1) == Later()
    assert look(replica, 1, now_ms=1000 + FIRST_BACK_OFF_MS) == Refetch(1, 4)
    for _ in range(12):
        replica.on_refetch_failed(0)
    assert look(replica, 1, now_ms=LONGEST_BACK_OFF_MS - 1) == Later()
    assert look(replica, 1, now_ms=LONGEST_BACK_OFF_MS) == Refetch(1, 4)


def test_a_follower_that_could_not_be_cut_asks_to_count_no_more_now_and_then():
    replica = DamagedReplica(2)
    assert look(replica, 1, stopped=True) == Withdraw(4)
    assert look(replica, 1, stopped=True, now_ms=FIRST_BACK_OFF_MS - 1) == Later()
    assert look(replica, 1, stopped=True, epoch=5, now_ms=FIRST_BACK_OFF_MS) == Withdraw(5)


def test_one_that_could_not_be_cut_and_came_to_lead_hands_over_or_keeps_what_it_has():
    assert look(DamagedReplica(1), 1, stopped=True) == Resign(4)
    assert look(DamagedReplica(1), 1, stopped=True, in_sync=(1,)) == Keep()
