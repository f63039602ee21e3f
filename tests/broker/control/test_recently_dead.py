"""To librdkafka, Metadata still lists a broker that died a moment ago, but no client is sent to it."""

from __future__ import annotations

import pytest
from one_topic import create, state
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.messages.api_versions import ApiVersionsRequest
from ottla.messages.describe_cluster import DescribeClusterRequest
from ottla.messages.metadata import MetadataRequest, MetadataResponse

SESSION_MS = 6000
BUILT_ON_LIBRDKAFKA = [("librdkafka", "2.15.1"), ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")]


@pytest.fixture
def cluster() -> SimCluster:
    return SimCluster(broker_session_timeout_ms=str(SESSION_MS))


def metadata_for(cluster: SimCluster, software: str, version: str, request: MetadataRequest) -> MetadataResponse:
    """The answer to a client that has said which software it is."""
    peer = cluster.peer(1)
    named = ApiVersionsRequest(client_software_name=software, client_software_version=version)
    assert not cluster.wait_for(peer.ask(named)).error_code
    answer: MetadataResponse = cluster.wait_for(peer.ask(request))
    peer.close()
    return answer


def listed(cluster: SimCluster, software: str = "librdkafka", version: str = "2.15.1") -> list[int]:
    answer = metadata_for(cluster, software, version, MetadataRequest(topics=[]))
    return [broker.node_id for broker in answer.brokers]


def until_live(cluster: SimCluster, *numbers: int) -> None:
    cluster.until(lambda: [each.broker_id for each in cluster.node(1).metadata.live_brokers()] == list(numbers))


@pytest.mark.parametrize(("software", "version"), BUILT_ON_LIBRDKAFKA)
def test_a_broker_that_died_is_listed_until_its_session_would_have_ended(
    cluster: SimCluster, software: str, version: str
):
    cluster.kill(3)
    until_live(cluster, 1, 2)
    died_ms = cluster.loop.mono_ms()
    assert listed(cluster, software, version) == [1, 2, 3]
    cluster.until(lambda: cluster.loop.mono_ms() >= died_ms + SESSION_MS)
    assert listed(cluster, software, version) == [1, 2]


def test_a_client_that_learns_the_new_leaders_also_learns_that_the_dead_broker_is_gone(cluster: SimCluster):
    """franz-go would keep the dead broker, and ask it as a coordinator, until its Metadata is five minutes old."""
    create(cluster, 3, 1, 2)
    cluster.until(lambda: state(cluster).leader == 3)
    cluster.kill(3)
    cluster.until(lambda: state(cluster).leader in (1, 2))
    answer = metadata_for(cluster, "kgo", "v1.22.2", MetadataRequest(topics=None))
    assert answer.topics[0].partitions[0].leader_id in (1, 2)
    assert [broker.node_id for broker in answer.brokers] == [1, 2]


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
    answer = metadata_for(cluster, *BUILT_ON_LIBRDKAFKA[0], MetadataRequest(topics=None))
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id in (1, 2)) == (ErrorCode.NONE, True)
    assert 3 in [broker.node_id for broker in answer.brokers]
