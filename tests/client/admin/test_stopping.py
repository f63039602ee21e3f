"""Losses that stopping a broker would cause, and replicas that no other broker can take."""

from __future__ import annotations

from ottla.client.admin.placement import drained
from ottla.client.admin.stopping import losses, moved, stuck
from ottla.client.model import Broker, PartitionView, TopicView
from ottla.kernel.ids import TopicPartition

P = TopicPartition("t", 0)


def topic(replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> TopicView:
    leader = in_sync[0] if in_sync else -1
    return TopicView("t", bytes(16), False, {0: PartitionView(0, leader, 1, replicas, in_sync, ())})


def lost(replicas: tuple[int, ...], in_sync: tuple[int, ...], minimum: int) -> list[tuple[int, int]]:
    return [(one.in_sync, one.needed) for one in losses(3, [topic(replicas, in_sync)], {"t": minimum})]


def test_a_partition_that_keeps_its_minimum_loses_nothing():
    assert lost((1, 2, 3), (1, 2, 3), 2) == []
    assert lost((1, 3), (1, 3), 1) == []


def test_a_partition_that_falls_below_its_minimum_suffers():
    assert lost((1, 2, 3), (1, 3), 2) == [(1, 2)]
    assert lost((1, 3), (1, 3), 2) == [(1, 2)]
    assert lost((1, 3), (1, 3), 3) == [(1, 2)], "it needs no more than it has replicas"


def test_the_last_replica_in_sync_is_missed_whatever_the_minimum():
    assert lost((3,), (3,), 1) == [(0, 1)]
    assert lost((1, 2, 3), (3,), 1) == [(0, 1)]


def test_a_broker_that_is_out_of_sync_is_missed_only_where_nobody_is_in_sync():
    assert lost((1, 2, 3), (1, 2), 2) == []
    assert lost((1, 2, 3), (1,), 2) == [], "it refuses writes already, and goes on to"
    assert lost((1, 3), (), 1) == [(0, 1)], "it may be the one that comes back first"


def test_partitions_elsewhere_are_none_of_its():
    assert lost((1, 2), (1,), 2) == []


def test_a_loss_is_said_in_words():
    (writes,) = losses(3, [topic((1, 2, 3), (1, 3))], {"t": 2})
    (everything,) = losses(3, [topic((3,), (3,))], {"t": 1})
    assert writes.text.startswith("t-0 would have 1 replica in sync: writes with acks=all need 2")
    assert everything.text.startswith("t-0 would have no replica in sync: neither reads nor writes")


def test_after_a_move_the_new_replicas_are_in_sync_and_the_others_as_before():
    (after,) = moved([topic((1, 2, 3), (1, 3))], {P: (1, 2, 4)})
    assert after.partitions[0].replicas == (1, 2, 4)
    assert after.partitions[0].isr == (1, 4)
    assert losses(3, [after], {"t": 2}) == []
    assert moved([topic((1, 2, 3), (1, 3))], {}) == [topic((1, 2, 3), (1, 3))]


def test_a_replica_has_nowhere_to_go_where_every_other_broker_has_one():
    brokers = {number: Broker(number, "h", number) for number in (1, 2, 3)}
    after = drained({P: (1, 2, 3)}, 3, brokers, {})
    assert stuck(after, 3, (1, 2)) == {P: 1}
    assert stuck({P: (1, 2, 3)}, 3, (1,)) == {P: 2}, "one of them is gone"
    assert stuck(drained({P: (1, 3)}, 3, brokers, {}), 3, (1, 2)) == {}
    assert stuck({P: (3,)}, 3, ()) == {P: 1}
