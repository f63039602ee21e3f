"""A leader that stood still drops no replica for its silence meanwhile, whatever the leader does first (rule A5)."""

from __future__ import annotations

import pytest
from one_topic import create
from sim_cluster import SimCluster

LAG_MS = 2000
LEASE_MS = 4000


class Place:
    """Broker 1 leads `t` with all in sync, and is stopped for longer than the lag and shorter than its lease."""

    def __init__(self) -> None:
        self.cluster = cluster = SimCluster(session_ms=6000, replica_lag_time_max_ms=str(LAG_MS))
        create(cluster, 1, 2, 3)
        self.node = cluster.node(1)
        self.partition = self.node.replicas.by_name[("t", 0)]
        cluster.until(lambda: all(held.shown for held in self.partition.leader.held.values()))

    def stands_still(self, ms):
        self.cluster.machines[1].pause()
        self.cluster.loop.run_for(ms)
        assert self.node.around.may_lead()


@pytest.mark.parametrize("served_ms", [0, 3 * LAG_MS])
def test_a_fetch_that_is_read_before_the_round_that_is_late_evicts_nobody(served_ms):
    """Such a fetch may come from a follower that is out of sync: sockets are read before timers run."""
    place = Place()
    place.cluster.loop.run_for(served_ms)
    place.stands_still(LAG_MS + 1000)
    place.node.replicas.in_sync.look(place.partition)
    place.cluster.machines[1].go_on()
    place.cluster.loop.run_for(LAG_MS)
    assert place.partition.leader.partition_epoch == 0, "nobody has ever left"


def test_the_first_round_is_late_too_where_the_leader_stood_still_before_it():
    place = Place()
    place.stands_still(LAG_MS + 1000)
    place.node.replicas.in_sync.round()
    place.cluster.machines[1].go_on()
    place.cluster.loop.run_for(LAG_MS)
    assert place.partition.leader.partition_epoch == 0, "nobody has ever left"


def test_who_is_silent_once_the_leader_goes_on_leaves_in_time():
    place = Place()
    place.stands_still(LAG_MS + 1000)
    place.cluster.network.block("broker-2", "broker-1")
    place.cluster.machines[1].go_on()
    place.cluster.loop.run_for(2 * LAG_MS)
    assert place.partition.leader.committed_in_sync == {1, 3}
    assert not place.node.metadata.brokers[2].fenced


def test_members_that_leave_and_come_back_are_counted_on_their_leader_alone():
    place = Place()
    counted = place.node.replicas.in_sync
    assert (counted.shrinks, counted.expands) == (0, 0)
    place.cluster.network.block("broker-2", "broker-1")
    place.cluster.until(lambda: place.partition.leader.committed_in_sync == {1, 3})
    assert (counted.shrinks, counted.expands) == (1, 0)
    place.cluster.network.unblock("broker-2", "broker-1")
    place.cluster.until(lambda: place.partition.leader.committed_in_sync == {1, 2, 3})
    assert (counted.shrinks, counted.expands) == (1, 1)
    others = [place.cluster.node(number).replicas.in_sync for number in (2, 3)]
    assert all(each.shrinks == each.expands == 0 for each in others)
