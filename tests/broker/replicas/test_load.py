"""Brokers in virtual time report the bytes that go in and out, and how far followers lag."""

from __future__ import annotations

import json

from one_topic import state, until_placed
from sim_cluster import SimCluster

from ottla.config.describe import BROKER_LOAD
from ottla.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.metadata.state import BROKER_RESOURCE
from ottla.records.builder import BatchBuilder


def a_cluster():
    cluster = SimCluster(min_insync_replicas="1")
    cluster.create_topic(replicas=3)
    until_placed(cluster, 1, 2, 3)
    return cluster


def batch():
    builder = BatchBuilder()
    for number in range(10):
        builder.add(1_700_000_000_000 + number, None, b"value")
    return builder.build()


def produce(cluster, broker, records):
    data = [PartitionProduceData(index=0, records=records)]
    topic = TopicProduceData(name="t", partition_data=data)
    answer = cluster.ask(broker, ProduceRequest(acks=-1, timeout_ms=3000, topic_data=[topic]), most=12)
    assert answer.responses[0].partition_responses[0].error_code == 0


def load(cluster, broker):
    asked = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(broker), configuration_keys=[BROKER_LOAD]
    )
    (result,) = cluster.ask(broker, DescribeConfigsRequest(resources=[asked])).results
    (state,) = result.configs
    return json.loads(state.value)


def test_a_leader_tells_what_was_written_and_that_its_followers_have_it():
    cluster = a_cluster()
    leader = state(cluster).leader
    before, records = load(cluster, leader), batch()
    produce(cluster, leader, records)
    after = load(cluster, leader)
    assert after["bytes_in"] - before["bytes_in"] == len(records)
    assert after["bytes_out"] - before["bytes_out"] == 2 * len(records), "two followers read it"
    others = {str(each) for each in (1, 2, 3) if each != leader}
    assert after["lags"] == {other: [0, 0] for other in others}
    assert after["at_ms"] > before["at_ms"]


def test_a_follower_that_is_gone_lags_by_what_was_written_since():
    cluster = a_cluster()
    leader = state(cluster).leader
    produce(cluster, leader, batch())
    gone, stays = (each for each in (1, 2, 3) if each != leader)
    cluster.kill(gone)
    cluster.until(lambda: gone not in cluster.node(leader).metadata.live_brokers())
    produce(cluster, leader, batch())
    assert load(cluster, leader)["lags"] == {str(gone): [10, 0], str(stays): [0, 0]}


def test_a_follower_that_a_new_leader_has_not_heard_is_said_to_be_unheard():
    cluster = a_cluster()
    gone = state(cluster).leader
    cluster.kill(gone)
    living = [each for each in (1, 2, 3) if each != gone]

    def leading():
        return [each for each in living if cluster.node(each).replicas.by_name["t", 0].leader is not None]

    cluster.until(leading)
    (leader,) = leading()
    produce(cluster, leader, batch())
    assert load(cluster, leader)["lags"][str(gone)] == [0, 1]
