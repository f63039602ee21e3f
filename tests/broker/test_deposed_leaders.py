"""A leader was deposed while it was cut off; what it learns then concerns the present leader."""

from __future__ import annotations

import pytest
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import run_story
from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.records.builder import BatchBuilder


def test_who_waits_at_a_replica_that_is_placed_elsewhere_is_told_to_look_for_the_leader():
    """The topic still exists and the record may be committed: no answer may say that it was not written."""
    cluster = SimCluster(3)
    replicas = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=replicas)
    cluster.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=5000))
    cluster.until(lambda: all(("t", 0) in cluster.node(each).replicas.by_name for each in (1, 2)))
    cluster.until(lambda: len(cluster.node(1).metadata.topic("t").partitions[0].in_sync) == 2)
    for sender, receiver in ((1, 2), (2, 1)):
        cluster.network.block(f"broker-{sender}", f"broker-{receiver}")
    builder = BatchBuilder()
    builder.add(0, None, b"x")
    data = [PartitionProduceData(index=0, records=builder.build())]
    request = ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    produced = run_story(cluster.peer(1).ask(request, most=9))
    cluster.until(lambda: cluster.node(1).replicas.by_name["t", 0].log.end_offset == 1)
    moved = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[3])])
    cluster.ask(3, AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=5000), most=0)
    answer = cluster.end_of(produced)
    assert ("t", 0) not in cluster.node(1).replicas.by_name
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("kind", "name"), [(TOPIC_RESOURCE, "t"), (BROKER_RESOURCE, ALL_BROKERS)])
def test_fewer_required_in_sync_do_not_commit_what_a_deposed_leader_has_written_alone(kind: int, name: str):
    """Counted as committed, those records could not be cut off any more, and the replica could follow no leader."""
    cluster = SimCluster(2, replica_lag_time_max_ms="2000", min_insync_replicas="2", default_replication_factor="2")
    replicas = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=replicas)
    cluster.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=5000))

    def replica(number: int):
        return cluster.node(number).replicas.by_name[("t", 0)]

    def state(number: int):
        return cluster.node(number).metadata.topic("t").partitions[0]

    def produce(number: int, acks: int) -> None:
        builder = BatchBuilder()
        builder.add(0, None, b"x")
        data = [PartitionProduceData(index=0, records=builder.build())]
        topics = [TopicProduceData(name="t", partition_data=data)]
        answer = cluster.ask(number, ProduceRequest(acks=acks, timeout_ms=9000, topic_data=topics), most=9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    def between(act) -> None:
        for sender, receiver in ((1, 2), (2, 1)):
            act(cluster.machines[sender].host, cluster.machines[receiver].host)

    cluster.until(lambda: all(("t", 0) in cluster.node(each).replicas.by_name for each in (1, 2)))
    cluster.until(lambda: replica(1).leader is not None)
    produce(1, -1)
    between(cluster.network.block)
    cluster.until(lambda: state(1).in_sync == (1,))
    produce(1, 1)
    assert (replica(1).log.high_watermark, replica(1).log.end_offset) == (1, 2)

    here = cluster.machines[1].current.coordination
    here.cut = True
    here.expire()
    cluster.until(lambda: state(2).leader == 2)
    said = [AlterableConfig(name="min.insync.replicas", config_operation=0, value="1")]
    edit = AlterConfigsResource(resource_type=kind, resource_name=name, configs=said)
    answer = cluster.ask(2, IncrementalAlterConfigsRequest(resources=[edit]))
    assert answer.responses[0].error_code == ErrorCode.NONE
    between(cluster.network.unblock)
    here.cut = False
    here.revive()
    cluster.until(lambda: state(1).leader == 2)
    assert replica(1).log.high_watermark == 1
    cluster.until(lambda: set(state(2).in_sync) == {1, 2})
    assert replica(1).follower.failed is None
