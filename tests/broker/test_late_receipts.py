"""A delayed fetch tells what was on the follower's disk when it was sent, not what is there now."""

from __future__ import annotations

from one_topic import create, produce, reassign, state
from sim_cluster import SimCluster


def test_a1_what_a_replica_asked_before_it_went_is_no_receipt_once_it_has_come_back_empty():
    cluster = SimCluster()
    create(cluster, 1, 2)
    cluster.loop.run_for(1000)  # by now each fetch of the follower waits at the leader
    before = cluster.node(2).replicas.by_name[("t", 0)].log
    cluster.network.block("broker-2", "broker-1")
    produce(cluster, 1)
    cluster.until(lambda: before.synced_offset == 1)  # and its fetch from that offset is under way
    cluster.loop.run_for(50)
    reassign(cluster, 1, 3)
    cluster.until(lambda: state(cluster).replicas == (1, 3))
    cluster.until(lambda: ("t", 0) not in cluster.node(2).replicas.by_name)
    reassign(cluster, 1, 2)
    cluster.until(lambda: ("t", 0) in cluster.node(2).replicas.by_name)
    log = cluster.node(2).replicas.by_name[("t", 0)].log
    assert log.end_offset == 0
    cluster.network.unblock("broker-2", "broker-1")
    cluster.network.block("broker-2", "broker-1")  # requests already under way arrive, later ones do not
    cluster.loop.run_for(1000)
    assert 2 not in state(cluster).in_sync
    cluster.network.unblock("broker-2", "broker-1")
    cluster.until(lambda: 2 in state(cluster).in_sync)
    assert log.synced_offset == 1
