"""A follower removes a partition from its session when the leader changes: else each fetch would return at once."""

from __future__ import annotations

from one_topic import create, produce, reassign
from sim_cluster import SimCluster

from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

FETCH = 1


def settled(cluster: SimCluster, topic: str, *replicas: int) -> None:
    """Make a topic, and wait until its followers fetch."""
    create(cluster, *replicas, topic=topic)
    cluster.loop.run_for(1000)


def lead(cluster: SimCluster, name: str, *replicas: int) -> None:
    """Have the topic's first replica elected, and wait until the third broker knows."""
    reassign(cluster, *replicas, topic=name)
    cluster.ask(1, ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=name, partitions=[0])]))
    follower = cluster.node(3).replicas.by_name[name, 0]
    cluster.until(lambda: follower.leader_id == replicas[0])


def fetches_in_two_seconds(cluster: SimCluster) -> int:
    before = cluster.node(1).dispatch.requests[FETCH]
    cluster.loop.run_for(2000)
    return cluster.node(1).dispatch.requests[FETCH] - before


def test_who_has_left_all_of_a_leaders_partitions_has_it_forget_them():
    cluster = SimCluster()
    settled(cluster, "t", 1, 2, 3)
    lead(cluster, "t", 2, 1, 3)
    settled(cluster, "u", 1, 2, 3)
    assert fetches_in_two_seconds(cluster) <= 12  # two followers; each of their fetches waits half a second


def test_who_left_came_back_and_left_again_before_it_could_say_so_has_its_leader_forget():
    cluster = SimCluster()
    settled(cluster, "t", 1, 2, 3)
    settled(cluster, "u", 1, 2, 3)
    cluster.machines[3].set_sync_us((900_000, 900_000))
    produce(cluster, 1, topic="u")
    cluster.until(lambda: cluster.node(3).replicas.by_name["u", 0].log.end_offset == 1)  # it sends no fetch meanwhile
    lead(cluster, "t", 2, 1, 3)
    lead(cluster, "t", 1, 2, 3)
    lead(cluster, "t", 2, 1, 3)
    assert cluster.node(3).replicas.by_name["u", 0].log.synced_offset == 0
    cluster.until(lambda: cluster.node(3).replicas.by_name["u", 0].log.synced_offset == 1)
    assert fetches_in_two_seconds(cluster) <= 12
