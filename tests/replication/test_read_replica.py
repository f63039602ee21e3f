"""Tests of which replica a consumer is sent to by its rack (KIP-392)."""

from __future__ import annotations

from ottla.replication.leader import LeaderReplica, ReplicaKey
from ottla.replication.read_replica import nearest

RACKS = {1: "a", 2: "b", 3: "b"}


def a_leader(*, in_sync=(1, 2, 3), held=((2, 10), (3, 10)), log_start=0):
    leader = LeaderReplica(
        me=1,
        epoch=5,
        epoch_start=0,
        epoch_ends=lambda asked: (asked, 1000),
        replicas=(1, 2, 3),
        in_sync=frozenset(in_sync),
        partition_epoch=7,
        min_in_sync=1,
        high_watermark=0,
        synced_through=10,
        log_start=0,
        registered={1: 10, 2: 20, 3: 30},
        now_ms=0,
    )
    for broker, through in held:
        leader.on_fetch(
            ReplicaKey(broker, broker * 10),
            leader_epoch=5,
            last_epoch=5,
            synced_through=through,
            end_offset=10,
            now_ms=100 * broker,
            log_start=log_start,
        )
    return leader


def test_a_consumer_of_the_leaders_rack_stays_there():
    assert nearest(a_leader(), RACKS, "a", 0) is None
    assert nearest(a_leader(), {1: "b", 2: "b", 3: "b"}, "b", 0) is None


def test_of_its_rack_the_one_that_holds_most_is_taken_then_the_latest():
    assert nearest(a_leader(held=((2, 10), (3, 9))), RACKS, "b", 5) == 2
    assert nearest(a_leader(), RACKS, "b", 5) == 3


def test_nobody_is_sent_to_whom_the_offset_is_missing():
    leader = a_leader(held=((2, 7), (3, 4)))
    assert [nearest(leader, RACKS, "b", offset) for offset in (7, 8)] == [2, None]
    assert nearest(a_leader(log_start=3), RACKS, "b", 2) is None


def test_nobody_is_sent_to_whoever_has_not_shown_itself_in_this_epoch():
    assert nearest(a_leader(held=()), RACKS, "b", 0) is None


def test_nobody_is_sent_out_of_the_in_sync_set():
    assert nearest(a_leader(in_sync=(1, 2)), RACKS, "b", 0) == 2
    assert nearest(a_leader(in_sync=(1,)), RACKS, "b", 0) is None


def test_a_rack_in_which_no_replica_lives_is_served_by_the_leader():
    assert nearest(a_leader(), RACKS, "c", 0) is None
    assert nearest(a_leader(), {1: "a"}, "b", 0) is None
    assert nearest(a_leader(), {1: None, 2: None, 3: None}, "b", 0) is None
