"""Three brokers that limit their clients: brokers need no rights, and an ACL counts at each of them."""

from __future__ import annotations

import pytest
from one_topic import replica, state, try_to_produce
from sim_broker import SimBroker
from sim_cluster import SimCluster
from transactional import Scene, ready

from ottla.cluster.commands import CreateAcls, DeleteAcls
from ottla.kernel.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceKind
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.story import run_story
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.metadata import MetadataRequest
from ottla.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANONYMOUS = "User:ANONYMOUS"


def rule(operation: Operation, resource: ResourceKind, name: str) -> Acl:
    return Acl(resource, name, PatternType.LITERAL, ANONYMOUS, "*", operation, Permission.ALLOW)


def cluster() -> SimCluster:
    made = SimCluster(min_insync_replicas="2", authorizer_class_name=STANDARD)
    for one in (rule(Operation.CREATE, ResourceKind.CLUSTER, "kafka-cluster"),
                rule(Operation.WRITE, ResourceKind.TOPIC, "t")):  # fmt: skip
        outcome = made.wait_for(_submit(made, CreateAcls((one,))))
        assert not isinstance(outcome, ApiError)
    made.create_topic(replicas=3)
    made.until(lambda: all(("t", 0) in made.node(each).replicas.by_name for each in (1, 2, 3)))
    return made


async def _submit(made: SimCluster, command: CreateAcls | DeleteAcls):
    return await made.node(1).follow.submit(command)


def test_followers_fetch_and_commit_without_any_right():
    made = cluster()
    leader = state(made, 1).leader
    assert try_to_produce(made, leader, acks=-1) == ErrorCode.NONE
    assert [replica(made, number).log.synced_offset for number in (1, 2, 3)] == [1, 1, 1]


def test_an_acl_that_is_removed_at_one_broker_is_gone_at_the_leader_and_at_the_next_one():
    made = cluster()
    old = state(made, 1).leader
    assert try_to_produce(made, old, acks=-1) == ErrorCode.NONE
    gone = made.wait_for(_submit(made, DeleteAcls((AclFilter(ResourceKind.TOPIC),))))
    assert not isinstance(gone, ApiError)
    made.until(lambda: all(len(made.node(each).metadata.acls) == 1 for each in (1, 2, 3)))
    assert try_to_produce(made, old, acks=-1) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    made.kill(old)
    other = made.others(old)[0]
    made.until(lambda: state(made, other).leader not in (old, -1), 60_000)
    new = state(made, other).leader
    made.until(lambda: replica(made, new).leader is not None)
    assert try_to_produce(made, new, acks=-1) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    made.start(old)
    made.until(lambda: len(made.node(old).metadata.acls) == 1)
    assert made.ask(old, MetadataRequest(topics=None)).topics == []


def test_a_fetch_that_waits_is_refused_once_a_snapshot_says_that_the_right_is_gone():
    place = SimBroker(authorizer_class_name=STANDARD, allow_everyone_if_no_acl_found="true")
    place.create_topic()
    follow = place.here.node.follow
    granted = follow.submit(CreateAcls((rule(Operation.READ, ResourceKind.TOPIC, "t"),)))
    place.loop.run_for(200)
    assert not isinstance(granted.result(), ApiError)
    wanted = [FetchTopic(topic="t", partitions=[FetchPartition(partition_max_bytes=9999)])]
    peer = place.peer()
    waiting = run_story(peer.ask(FetchRequest(max_wait_ms=5_000, min_bytes=1, topics=wanted), most=12))
    place.loop.run_for(200)
    assert not waiting.full
    follow.metadata.acls = {rule(Operation.READ, ResourceKind.TOPIC, "another"): None}
    follow.metadata.acls[rule(Operation.WRITE, ResourceKind.TOPIC, "t")] = None
    follow.metadata.acls_version += 1
    follow.on_reconcile(follow.metadata.take_changes()._replace(everything=True))
    place.loop.run_for(200)
    assert waiting.full
    (topic,) = waiting.result().responses
    assert topic.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [1, 2])
def test_coordinators_add_partitions_and_write_markers_where_clients_may_not(version: int):
    """Clients are denied everything on the cluster, by which brokers verify partitions and write markers."""
    scene = Scene(authorizer_class_name=STANDARD, allow_everyone_if_no_acl_found="true")
    denied = Acl(ResourceKind.CLUSTER, "kafka-cluster", PatternType.LITERAL, ANONYMOUS, "*", Operation.ALL,
                 Permission.DENY)  # fmt: skip
    assert not isinstance(scene.wait_for(_submit(scene, CreateAcls((denied,)))), ApiError)
    scene.until(lambda: all(scene.node(each).metadata.acls for each in (1, 2, 3)))
    producer = ready(scene, version=version)
    for commit in (True, False):
        for partition in range(3):
            assert producer.send(partition, f"{commit}") == ErrorCode.NONE
        assert producer.end(commit=commit) == ErrorCode.NONE
    scene.loop.run_for(1_000)
    assert [scene.read(partition) for partition in range(3)] == [["True"]] * 3
    marker = WritableTxnMarker(
        producer_id=1, producer_epoch=0, topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])]
    )
    (told,) = scene.ask(1, WriteTxnMarkersRequest(markers=[marker])).markers
    assert told.topics[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
