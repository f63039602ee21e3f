"""A delayed fetch tells what was on the follower's disk when it was sent, not what is there now."""

from __future__ import annotations

from sim_cluster import SimCluster

from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.metadata.state import PartitionState
from ottla.records.builder import BatchBuilder


def create(cluster: SimCluster, *replicas: int) -> None:
    assigned = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[assigned])
    cluster.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=5000))
    cluster.until(lambda: all(("t", 0) in cluster.node(each).replicas.by_name for each in replicas))


def produce(cluster: SimCluster, number: int) -> None:
    builder = BatchBuilder()
    builder.add(0, None, b"x")
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=builder.build())])
    response = cluster.ask(number, ProduceRequest(acks=1, timeout_ms=3000, topic_data=[topic]), most=9)
    assert response.responses[0].partition_responses[0].error_code == 0


def reassign(cluster: SimCluster, *replicas: int) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    asked = ReassignableTopic(name="t", partitions=[partition])
    cluster.ask(1, AlterPartitionReassignmentsRequest(topics=[asked], timeout_ms=5000))


def state(cluster: SimCluster) -> PartitionState:
    topic = cluster.node(1).metadata.topic("t")
    assert topic is not None
    return topic.partitions[0]


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
