"""Partitions of fewer replicas than `min.insync.replicas`, while a reassignment adds some: they go on being written."""

from __future__ import annotations

from one_topic import create, produce, reassign, replica, state, try_to_produce
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode


def test_the_only_replica_is_written_while_it_moves_to_a_broker_that_is_down():
    cluster = SimCluster(min_insync_replicas="2")
    create(cluster, 1)
    produce(cluster, 1, acks=-1)
    cluster.kill(2)
    reassign(cluster, 2)
    assert state(cluster).adding == (2,)
    produce(cluster, 1, acks=-1)
    cluster.start(2)
    cluster.until(lambda: state(cluster).replicas == (2,), 60_000)
    cluster.until(lambda: replica(cluster, 2).leader is not None)
    produce(cluster, 2, acks=-1)


def test_with_all_added_replicas_in_sync_the_minimum_is_that_of_their_number():
    cluster = SimCluster(min_insync_replicas="2")
    create(cluster, 1)
    cluster.kill(3)
    reassign(cluster, 1, 2, 3)
    produce(cluster, 1, acks=-1)
    cluster.until(lambda: state(cluster).in_sync == (1, 2), 60_000)
    cluster.start(3)
    cluster.until(lambda: state(cluster).adding == (), 60_000)
    for number in (2, 3):
        cluster.kill(number)
    cluster.until(lambda: state(cluster).in_sync == (1,), 60_000)
    assert try_to_produce(cluster, 1, acks=-1) == ErrorCode.NOT_ENOUGH_REPLICAS


def test_an_added_replica_that_has_left_may_lead_so_nothing_is_committed_without_it():
    """Rule A6: whoever decides that it leaves counts all replicas, and keeps it eligible."""
    cluster = SimCluster(min_insync_replicas="2")
    create(cluster, 1)
    cluster.kill(3)
    reassign(cluster, 1, 2, 3)
    cluster.until(lambda: state(cluster).in_sync == (1, 2), 60_000)
    cluster.kill(2)
    cluster.until(lambda: state(cluster).in_sync == (1,), 60_000)
    assert state(cluster).eligible == (2,)
    assert try_to_produce(cluster, 1, acks=-1) == ErrorCode.NOT_ENOUGH_REPLICAS
