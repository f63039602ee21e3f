"""A broker that has lost the coordination store names no leaders or coordinators to clients."""

from __future__ import annotations

import pytest
from one_topic import create, replica, state
from plain_requests import a_produce
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.messages.api_versions import ApiVersionsRequest
from ottla.messages.describe_cluster import DescribeClusterRequest
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.metadata import MetadataRequest

DIRECTORIES = [
    MetadataRequest(topics=None),
    FindCoordinatorRequest(key="g", coordinator_keys=["g"]),
    DescribeClusterRequest(),
]


@pytest.mark.parametrize("request_", DIRECTORIES, ids=lambda one: type(one).__name__)
def test_a_client_of_a_broker_that_is_cut_off_is_sent_away_and_comes_back_later(request_):
    cluster = SimCluster(3)
    way = cluster.machines[1].current.coordination
    way.cut = True
    cluster.until(lambda: not cluster.node(1).follow.lease_valid())
    assert cluster.ask(1, request_) is None, "the connection is closed"
    assert cluster.ask(1, ApiVersionsRequest()) is not None
    assert cluster.ask(2, request_) is not None
    way.cut = False
    cluster.until(cluster.node(1).follow.lease_valid)
    assert cluster.ask(1, request_) is not None


def test_a_broker_that_is_alone_answers_whatever_its_store_does():
    cluster = SimCluster(1)
    cluster.machines[1].current.coordination.cut = True
    cluster.until(lambda: not cluster.node(1).follow.lease_valid())
    assert len(cluster.ask(1, MetadataRequest(topics=None)).brokers) == 1


def test_a_broker_that_was_fenced_and_knows_it_answers():
    cluster = SimCluster(3)
    way = cluster.machines[1].current.coordination
    way.expire()
    cluster.until(lambda: cluster.node(2).metadata.brokers[1].fenced)
    assert cluster.ask(1, MetadataRequest(topics=None)).brokers


def test_who_waits_for_a_commit_is_told_when_the_lease_has_run_out():
    cluster = SimCluster(min_insync_replicas="2")
    create(cluster, 1, 2, 3)
    leader = state(cluster).leader
    for number in {1, 2, 3} - {leader}:
        cluster.kill(number)
    cluster.machines[leader].current.coordination.cut = True
    asked_ms = cluster.loop.mono_ms()
    request = a_produce(acks=-1, timeout_ms=60_000)
    answer = cluster.wait_for(cluster.peer(leader).ask(request, most=12, timeout_ms=9000))
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == -1, "a client that is sent back to us would ask us for ever"
    assert cluster.loop.mono_ms() - asked_ms <= 6000 * 2 / 3
    assert replica(cluster, leader).log.end_offset == 1, "it was appended and is not committed"
