"""A follower removes a partition from its session when the leader changes: else each fetch would return at once."""

from __future__ import annotations

from sim_cluster import SimCluster

from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import BatchBuilder

FETCH = 1


def create(cluster: SimCluster, name: str, *replicas: int) -> None:
    assigned = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[assigned])
    cluster.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=5000))
    cluster.until(lambda: all((name, 0) in cluster.node(each).replicas.by_name for each in replicas))
    cluster.loop.run_for(1000)


def lead(cluster: SimCluster, name: str, *replicas: int) -> None:
    """Have the topic's first replica elected, and wait until the third broker knows."""
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    asked = ReassignableTopic(name=name, partitions=[partition])
    cluster.ask(1, AlterPartitionReassignmentsRequest(topics=[asked], timeout_ms=5000))
    cluster.ask(1, ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=name, partitions=[0])]))
    follower = cluster.node(3).replicas.by_name[name, 0]
    cluster.until(lambda: follower.leader_id == replicas[0])


def produce(cluster: SimCluster, name: str, number: int) -> None:
    builder = BatchBuilder()
    builder.add(0, None, b"x")
    topic = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=builder.build())])
    cluster.ask(number, ProduceRequest(acks=1, timeout_ms=3000, topic_data=[topic]), most=9)


def fetches_in_two_seconds(cluster: SimCluster) -> int:
    before = cluster.node(1).dispatch.requests[FETCH]
    cluster.loop.run_for(2000)
    return cluster.node(1).dispatch.requests[FETCH] - before


def test_who_has_left_all_of_a_leaders_partitions_has_it_forget_them():
    cluster = SimCluster()
    create(cluster, "t", 1, 2, 3)
    lead(cluster, "t", 2, 1, 3)
    create(cluster, "u", 1, 2, 3)
    assert fetches_in_two_seconds(cluster) <= 12  # two followers; each of their fetches waits half a second


def test_who_left_came_back_and_left_again_before_it_could_say_so_has_its_leader_forget():
    cluster = SimCluster()
    create(cluster, "t", 1, 2, 3)
    create(cluster, "u", 1, 2, 3)
    cluster.machines[3].set_sync_us((900_000, 900_000))
    produce(cluster, "u", 1)
    cluster.until(lambda: cluster.node(3).replicas.by_name["u", 0].log.end_offset == 1)  # it sends no fetch meanwhile
    lead(cluster, "t", 2, 1, 3)
    lead(cluster, "t", 1, 2, 3)
    lead(cluster, "t", 2, 1, 3)
    assert cluster.node(3).replicas.by_name["u", 0].log.synced_offset == 0
    cluster.until(lambda: cluster.node(3).replicas.by_name["u", 0].log.synced_offset == 1)
    assert fetches_in_two_seconds(cluster) <= 12
