"""Consumer groups in a simulated cluster: announced once all brokers know them, set by options, kept in the log."""

from __future__ import annotations

from typing import Any

import pytest
from transactional import Scene

from ottla.client.errors import UnsupportedVersion
from ottla.kernel.errors import ErrorCode
from ottla.messages.api_versions import ApiVersionsRequest
from ottla.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, OwnedTopicPartitions
from ottla.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.messages.delete_groups import DeleteGroupsRequest
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.describe_groups import DescribeGroupsRequest
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.messages.list_groups import ListGroupsRequest
from ottla.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

OK = ErrorCode.NONE
GROUP_RESOURCE = 32
_GROUP = 0
_PASSING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class GroupScene(Scene):
    """One or several brokers, a topic `t` of three partitions, and heartbeats of a group `g`."""

    def beat(self, member_id: str, epoch: int, **said: Any) -> Any:
        """Send a heartbeat to the group's coordinator, until it answers as such."""
        if epoch == 0:
            said = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []} | said
        for _ in range(500):
            request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **said)
            answer = self.ask(self.coordinator("g", _GROUP), request)
            if answer is not None and answer.error_code not in _PASSING:
                return answer
            self.loop.run_for(20)
        raise AssertionError("no answer")

    def partitions(self, answer: Any) -> list[int] | None:
        if answer.assignment is None:
            return None
        return [index for each in answer.assignment.topic_partitions for index in each.partitions]

    def described(self) -> Any:
        answer = self.ask(self.coordinator("g", _GROUP), ConsumerGroupDescribeRequest(group_ids=["g"]))
        return answer.groups[0]

    def topic_id(self) -> bytes:
        topic = self.node(self.living()).metadata.topic("t")
        assert topic is not None
        return topic.topic_id

    def commit(self, member_id: str, epoch: int) -> int:
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topics = [OffsetCommitRequestTopic(topic_id=self.topic_id(), partitions=[place])]
        request = OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=epoch, member_id=member_id, topics=topics
        )
        answer = self.ask(self.coordinator("g", _GROUP), request)
        return int(answer.topics[0].partitions[0].error_code)

    def fetched(self, member_id: str | None, epoch: int) -> Any:
        groups = [OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)]
        return self.ask(self.coordinator("g", _GROUP), OffsetFetchRequest(groups=groups)).groups[0]


def test_clients_are_told_of_consumer_groups_once_every_broker_has_them():
    scene = GroupScene(1)

    def told() -> tuple[dict[str, int], set[int]]:
        answer = scene.ask(1, ApiVersionsRequest(client_software_name="t", client_software_version="1"))
        features = {each.name: each.max_version_level for each in answer.finalized_features}
        return features, {each.api_key for each in answer.api_keys}

    features, keys = told()
    assert features["group.version"] == 1 and {68, 69} <= keys
    assert scene.beat("m", 0).error_code == OK
    scene.node(1).metadata.features["metadata.version"] = 4
    with pytest.raises(UnsupportedVersion):
        scene.beat("m", 2)
    features, keys = told()
    assert "group.version" not in features and not {68, 69} & keys


def test_a_group_is_joined_described_listed_committed_for_and_deleted():
    scene = GroupScene(1)
    joined = scene.beat("m", 0)
    assert (joined.error_code, joined.member_epoch, scene.partitions(joined)) == (OK, 2, [0, 1, 2])
    assert scene.commit("m", 2) == OK
    assert scene.commit("m", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert scene.commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    mine = scene.fetched("m", 2)
    assert (mine.error_code, mine.topics[0].topic_id, mine.topics[0].partitions[0].committed_offset) == (
        OK, scene.topic_id(), 5,
    )  # fmt: skip
    assert scene.fetched("m", 1).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert scene.fetched("x", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    group = scene.described()
    assert (group.group_state, group.members[0].assignment.topic_partitions[0].topic_name) == ("Stable", "t")
    (listed,) = scene.ask(1, ListGroupsRequest(types_filter=["consumer"])).groups
    assert (listed.group_id, listed.group_type, listed.group_state) == ("g", "consumer", "Stable")
    (classic,) = scene.ask(1, DescribeGroupsRequest(groups=["g"])).groups
    assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert scene.ask(1, DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    scene.beat("m", -1)
    assert scene.ask(1, DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == OK
    assert scene.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_members_and_epochs_outlive_their_coordinators():
    scene = GroupScene(3)
    scene.beat("a", 0)
    scene.loop.run_for(1_000)
    scene.beat("b", 0)
    for _ in range(2):
        killed = scene.coordinator("g", _GROUP)
        scene.kill(killed)
        answer = scene.beat("b", 3)
        assert (answer.error_code, answer.member_epoch) == (OK, 3)
        scene.start(killed)
        scene.loop.run_for(5_000)
    revoke = scene.beat("a", 2)
    assert (revoke.member_epoch, scene.partitions(revoke)) == (2, [0, 1])
    owned = [OwnedTopicPartitions(topic_id=scene.topic_id(), partitions=[0, 1])]
    assert scene.beat("a", 2, topic_partitions=owned).member_epoch == 3
    assert scene.partitions(scene.beat("b", 3)) == [2]


def test_members_follow_topics_that_grow_and_go():
    scene = GroupScene(1)
    epoch = scene.beat("m", 0).member_epoch
    grown = [CreatePartitionsTopic(name="t", count=5, assignments=None)]
    scene.ask(1, CreatePartitionsRequest(topics=grown, timeout_ms=5_000))
    scene.loop.run_for(1_000)
    answer = scene.beat("m", epoch)
    assert scene.partitions(answer) == [0, 1, 2, 3, 4]
    scene.loop.run_for(1_000)
    scene.ask(1, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000))
    assert scene.partitions(scene.beat("m", answer.member_epoch, topic_partitions=[])) == []


def test_a_group_may_have_options_of_its_own():
    scene = GroupScene(1, group_consumer_heartbeat_interval_ms="6000")
    assert scene.beat("m", 0).heartbeat_interval_ms == 6_000
    wanted = [AlterableConfig(name="consumer.heartbeat.interval.ms", config_operation=0, value="9000")]
    resources = [AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name="g", configs=wanted)]
    altered = scene.ask(1, IncrementalAlterConfigsRequest(resources=resources))
    assert altered.responses[0].error_code == OK
    assert scene.beat("m", 2).heartbeat_interval_ms == 9_000


def test_a_member_that_was_not_heard_of_is_removed_in_real_time():
    scene = GroupScene(1)
    scene.beat("a", 0)
    scene.loop.run_for(46_000)
    assert scene.beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
