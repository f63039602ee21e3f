"""Metadata still lists a broker that died a moment ago, but sends no client to it."""

from __future__ import annotations

import pytest
from one_topic import create, state
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_cluster import DescribeClusterRequest
from ottla.messages.metadata import MetadataRequest

SESSION_MS = 6000


@pytest.fixture
def cluster() -> SimCluster:
    return SimCluster(broker_session_timeout_ms=str(SESSION_MS))


def listed(cluster: SimCluster) -> list[int]:
    return [broker.node_id for broker in cluster.ask(1, MetadataRequest(topics=[])).brokers]


def until_live(cluster: SimCluster, *numbers: int) -> None:
    cluster.until(lambda: [each.broker_id for each in cluster.node(1).metadata.live_brokers()] == list(numbers))


def test_a_broker_that_died_is_listed_until_its_session_would_have_ended(cluster: SimCluster):
    cluster.kill(3)
    until_live(cluster, 1, 2)
    died_ms = cluster.loop.mono_ms()
    assert listed(cluster) == [1, 2, 3]
    cluster.until(lambda: cluster.loop.mono_ms() >= died_ms + SESSION_MS)
    assert listed(cluster) == [1, 2]


def test_who_asks_for_the_cluster_is_told_of_live_brokers_only(cluster: SimCluster):
    cluster.kill(3)
    until_live(cluster, 1, 2)
    assert [broker.broker_id for broker in cluster.ask(1, DescribeClusterRequest()).brokers] == [1, 2]


def test_a_broker_that_came_back_and_stops_cleanly_is_no_longer_listed(cluster: SimCluster):
    cluster.kill(3)
    until_live(cluster, 1, 2)
    cluster.start(3)
    until_live(cluster, 1, 2, 3)
    left = cluster.machines[3].current.leave()
    cluster.until(lambda: left.full)
    until_live(cluster, 1, 2)
    assert listed(cluster) == [1, 2]


def test_topics_of_a_dead_broker_are_led_by_the_others(cluster: SimCluster):
    create(cluster, 3, 1, 2)
    cluster.until(lambda: state(cluster).leader == 3)
    cluster.kill(3)
    cluster.until(lambda: state(cluster).leader in (1, 2))
    answer = cluster.ask(1, MetadataRequest(topics=None))
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id in (1, 2)) == (ErrorCode.NONE, True)
    assert 3 in [broker.node_id for broker in answer.brokers]
