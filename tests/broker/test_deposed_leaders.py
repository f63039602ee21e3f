"""A leader was deposed while it was cut off; what it learns then concerns the present leader."""

from __future__ import annotations

import pytest
from one_topic import BY_NAME, create, produce, replica, state
from plain_requests import a_produce
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import run_story
from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE, TOPIC_RESOURCE


def test_who_waits_at_a_replica_that_is_placed_elsewhere_is_told_to_look_for_the_leader():
    """The topic still exists and the record may be committed: no answer may say that it was not written."""
    cluster = SimCluster(3)
    create(cluster, 1, 2)
    cluster.until(lambda: len(state(cluster).in_sync) == 2)
    for sender, receiver in ((1, 2), (2, 1)):
        cluster.network.block(f"broker-{sender}", f"broker-{receiver}")
    produced = run_story(cluster.peer(1).ask(a_produce(acks=-1, timeout_ms=20_000), most=BY_NAME))
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
    create(cluster, 1, 2)

    def between(act) -> None:
        for sender, receiver in ((1, 2), (2, 1)):
            act(cluster.machines[sender].host, cluster.machines[receiver].host)

    cluster.until(lambda: replica(cluster, 1).leader is not None)
    produce(cluster, 1, acks=-1)
    between(cluster.network.block)
    cluster.until(lambda: state(cluster, 1).in_sync == (1,))
    produce(cluster, 1)
    assert (replica(cluster, 1).log.high_watermark, replica(cluster, 1).log.end_offset) == (1, 2)

    here = cluster.machines[1].current.coordination
    here.cut = True
    here.expire()
    cluster.until(lambda: state(cluster, 2).leader == 2)
    said = [AlterableConfig(name="min.insync.replicas", config_operation=0, value="1")]
    edit = AlterConfigsResource(resource_type=kind, resource_name=name, configs=said)
    answer = cluster.ask(2, IncrementalAlterConfigsRequest(resources=[edit]))
    assert answer.responses[0].error_code == ErrorCode.NONE
    between(cluster.network.unblock)
    here.cut = False
    here.revive()
    cluster.until(lambda: state(cluster, 1).leader == 2)
    assert replica(cluster, 1).log.high_watermark == 1
    cluster.until(lambda: set(state(cluster, 2).in_sync) == {1, 2})
    assert replica(cluster, 1).follower.failed is None
