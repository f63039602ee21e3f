"""What a leader may call committed (rules A1 to A4)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.errors import ErrorCode
from ottla.replication.leader import LeaderReplica, Refused, ReplicaKey


def a_leader(*, in_sync=(1,), replicas=None, synced_through=0, min_in_sync=1, high_watermark=0):
    return LeaderReplica(
        me=1,
        epoch=5,
        epoch_start=0,
        replicas=tuple(replicas or in_sync),
        in_sync=frozenset(in_sync),
        min_in_sync=min_in_sync,
        high_watermark=high_watermark,
        synced_through=synced_through,
        registered={2: 20, 3: 30},
        now_ms=0,
    )


def fetched(leader, broker, through, *, epoch=5, broker_epoch=None):
    key = ReplicaKey(broker, broker * 10 if broker_epoch is None else broker_epoch)
    return leader.on_fetch(key, leader_epoch=epoch, synced_through=through, now_ms=1)


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
    assert fetched(leader, 2, 10, broker_epoch=19) == Refused(ErrorCode.STALE_BROKER_EPOCH)
    assert leader.high_watermark == 0


def test_a_fetch_of_another_leader_epoch_is_no_receipt():
    leader = a_leader(in_sync=(1, 2), synced_through=10)
    assert fetched(leader, 2, 10, epoch=4) == Refused(ErrorCode.FENCED_LEADER_EPOCH)
    assert leader.high_watermark == 0


def test_a_broker_that_is_no_replica_gives_no_receipt():
    leader = a_leader(in_sync=(1, 2), synced_through=10)
    assert fetched(leader, 3, 10) == Refused(ErrorCode.UNKNOWN_LEADER_EPOCH)


def test_too_few_in_sync_hold_the_high_watermark():
    leader = a_leader(in_sync=(1,), replicas=(1, 2), min_in_sync=2)
    assert not leader.enough_in_sync
    assert leader.on_own_sync(9, now_ms=1) is None
    leader.on_in_sync_applied(frozenset({1, 2}))
    assert fetched(leader, 2, 6) == 6


def test_a_minimum_above_the_number_of_replicas_asks_for_all_of_them():
    leader = a_leader(in_sync=(1,), min_in_sync=2)
    assert leader.enough_in_sync
    assert leader.on_own_sync(4, now_ms=1) == 4


def test_a_proposed_replica_counts_before_it_is_committed():
    leader = a_leader(in_sync=(1,), replicas=(1, 2))
    leader.proposed_in_sync = frozenset({1, 2})
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
