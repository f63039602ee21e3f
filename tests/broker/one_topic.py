"""A topic of one partition in a simulated cluster: placed on brokers, written to, moved."""

from __future__ import annotations

from typing import Any

from plain_requests import a_produce
from sim_cluster import SimCluster

from ottla.broker.replicas.partition import Partition
from ottla.kernel.errors import ErrorCode
from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.metadata.partition_state import PartitionState

BY_NAME = 9
"""A version of Produce that names topics."""


def create(cluster: SimCluster, *replicas: int, topic: str = "t", **configs: str) -> None:
    """Make a topic on these brokers, of which the first is preferred as leader; wait until all have their replica."""
    placed = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))]
    said = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    made = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=placed, configs=said)
    cluster.ask(1, CreateTopicsRequest(topics=[made], timeout_ms=5000))
    until_placed(cluster, *replicas, topic=topic)


def until_placed(cluster: SimCluster, *replicas: int, topic: str = "t") -> None:
    """Wait until these brokers have their replica."""
    cluster.until(lambda: all((topic, 0) in cluster.node(each).replicas.by_name for each in replicas))


def try_to_produce(cluster: SimCluster, number: int, value: bytes = b"x", **fields: Any) -> int:
    """Produce one record to a broker; return the error code."""
    answer = cluster.ask(number, a_produce(value, **fields), most=BY_NAME)
    return int(answer.responses[0].partition_responses[0].error_code)


def produce(cluster: SimCluster, number: int, value: bytes = b"x", **fields: Any) -> None:
    """Produce one record to the leader."""
    assert try_to_produce(cluster, number, value, **fields) == ErrorCode.NONE


def reassign(cluster: SimCluster, *replicas: int, topic: str = "t") -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    topics = [ReassignableTopic(name=topic, partitions=[partition])]
    answer = cluster.ask(1, AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=5000))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


def state(cluster: SimCluster, number: int = 1) -> PartitionState:
    """The partition, as one broker knows it."""
    topic = cluster.node(number).metadata.topic("t")
    assert topic is not None
    return topic.partitions[0]


def replica(cluster: SimCluster, number: int) -> Partition:
    """One broker's replica."""
    return cluster.node(number).replicas.by_name["t", 0]
