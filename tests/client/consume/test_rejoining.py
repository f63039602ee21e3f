"""A member that joins its group again: what it keeps, what it gives up, and what the group's leader knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
from tests.client.stories import VirtualTime, topic_led_by

from ottla.client.consume.assignors import COOPERATIVE_STICKY, RANGE, Assignor
from ottla.client.consume.consuming import ConsumerCore
from ottla.client.consume.group_protocol import (
    MemberSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ottla.client.consume.membership import MemberStanding
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.core.plan import ClusterPlan
from ottla.client.model import ClientSettings
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.find_coordinator import FindCoordinatorResponse
from ottla.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from ottla.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupResponse

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def topics(counts: Mapping[str, int]) -> MetadataResponse:
    """Topics of so many partitions, all led by broker 1."""
    answer = topic_led_by(1)
    answer.topics = [
        MetadataResponseTopic(
            name=name,
            partitions=[MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(count)],
        )
        for name, count in counts.items()
    ]
    return answer


class Group(VirtualTime):
    """A coordinator that admits one member to generation 4, 5 and so on, with the codes that it is told to answer."""

    def __init__(self, assignor: Assignor = RANGE, **settings: Any) -> None:
        super().__init__()
        self.assignor = assignor
        self.generation = 3
        self.committed = 5
        self.codes: dict[type[Any], list[ErrorCode]] = {}
        """The next error codes for a kind of answer; none are left: no error."""
        self.metadata: Callable[[], MetadataResponse] = lambda: topic_led_by(1, 1)
        self.others: dict[str, MemberSubscription] = {}
        """The other members, if the consumer is to lead the group."""
        self.shared: dict[str, tuple[TopicPartition, ...]] = {}
        """The assignments by the consumer, if it led the group."""
        self.told: list[tuple[str, list[TopicPartition]]] = []
        plan = ClusterPlan("b:1", ClientSettings(), lambda: self.time)
        self.core = ConsumerCore(plan, ConsumerSettings("g", assignors=(assignor,), **settings))
        self.member = self.core.subscribe(
            ["t"],
            on_assign=lambda given: self.told.append(("assigned", given)),
            on_revoke=lambda taken: self.told.append(("revoked", taken)),
            on_lost=lambda taken: self.told.append(("lost", taken)),
        )

    def join(self) -> None:
        self.run(self.core.poll(0))
        assert self.member.membership.standing is MemberStanding.MEMBER
        self.told.clear()

    def poll(self) -> None:
        self.time += 1
        self.run(self.core.poll(0))

    def run(self, story: Coroutine[Any, Any, Any]) -> Any:
        return super().run(story)

    def attempt(self, effect: Any) -> Any:
        codes = self.codes.get(effect.response, [])
        code = int(codes.pop(0)) if codes else 0
        if effect.response is MetadataResponse:
            return self.metadata()
        if effect.response is FindCoordinatorResponse:
            return FindCoordinatorResponse(node_id=1, host="b", port=1)
        if effect.response is JoinGroupResponse:
            return self._joined(code)
        if effect.response is SyncGroupResponse:
            return self._synced(effect.build(5), code)
        if effect.response is OffsetCommitResponse:
            parts = [OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in (0, 1)]
            return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=parts)])
        if effect.response is ListOffsetsResponse:
            ends = [
                ListOffsetsPartitionResponse(partition_index=index, offset=70 + index, error_code=code)
                for index in range(4)
            ]
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=ends)])
        assert effect.response is OffsetFetchResponse
        found = [
            OffsetFetchResponsePartition(partition_index=index, committed_offset=self.committed) for index in (0, 1)
        ]
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=found)])

    def _joined(self, code: int) -> JoinGroupResponse:
        if code:
            return JoinGroupResponse(error_code=code)
        self.generation += 1
        me = f"m{self.generation}"
        members = {me: MemberSubscription(("t",)), **self.others} if self.others else {}
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_name=self.assignor.name,
            leader=me if self.others else "another",
            member_id=me,
            members=[
                JoinGroupResponseMember(member_id=name, metadata=encode_subscription(subscription))
                for name, subscription in members.items()
            ],
        )

    def _synced(self, request: SyncGroupRequest, code: int) -> SyncGroupResponse:
        self.shared = {each.member_id: decode_assignment(bytes(each.assignment)) for each in request.assignments}
        return SyncGroupResponse(error_code=code, assignment=encode_assignment([P0, P1]))


def test_what_a_new_membership_brings_is_kept_where_the_commit_before_showed_that_the_old_one_is_gone() -> None:
    """It once was dropped with the next poll, and nobody read these partitions until the group rebalanced again."""
    group = Group()
    group.join()
    group.member.membership.rejoin()
    group.codes[OffsetCommitResponse] = [ErrorCode.UNKNOWN_MEMBER_ID]
    for _ in range(3):
        group.poll()
        assert group.core.assignment == {P0, P1}
    assert group.told == [("lost", [P0, P1]), ("assigned", [P0, P1])]


def test_the_leader_of_a_group_assigns_new_partitions_of_a_topic_that_only_others_read() -> None:
    group = Group()
    group.others = {"another": MemberSubscription(("u",))}
    counts = {"t": 2, "u": 1}
    group.metadata = lambda: topics(counts)
    group.join()
    assert group.shared["another"] == (TopicPartition("u", 0),)
    counts["u"] = 3
    group.member.membership.rejoin()  # the other member has seen it, and joins
    group.poll()
    assert len(group.shared["another"]) == 3


def test_a_cooperative_member_that_was_removed_before_it_synced_starts_from_what_others_have_committed() -> None:
    group = Group(COOPERATIVE_STICKY)
    group.join()
    assert [reading.position for reading in group.core.fetcher.readings.values()] == [5, 5]
    group.member.membership.rejoin()
    group.codes[SyncGroupResponse] = [ErrorCode.UNKNOWN_MEMBER_ID]
    group.committed = 9
    group.poll()
    assert [reading.position for reading in group.core.fetcher.readings.values()] == [9, 9]
    assert group.told == [("lost", [P0, P1]), ("assigned", [P0, P1])]


def test_a_topic_of_a_pattern_that_is_deleted_is_given_up_soon() -> None:
    """It once was asked for again and again for five minutes, as long as topics are not looked for."""
    group = Group()
    counts = {"t": 2, "other": 1}
    group.metadata = lambda: topics(counts)
    group.core.subscribe(re.compile("t"), on_revoke=lambda taken: group.told.append(("revoked", taken)))
    group.join()
    generation = group.generation
    del counts["t"]
    group.core.plan.metadata.doubt("t")  # as a Fetch does that is answered UNKNOWN_TOPIC_ID
    group.time += 1_000
    group.poll()
    assert group.generation == generation + 1
    assert group.member.wanted.names == []


def test_a_topic_that_can_never_be_read_is_an_error() -> None:
    group = Group()
    refusal = ErrorCode.INVALID_TOPIC_EXCEPTION
    group.metadata = lambda: MetadataResponse(topics=[MetadataResponseTopic(name="t", error_code=int(refusal))])
    with pytest.raises(ApiError, match="topic 't'") as raised:
        group.poll()
    assert raised.value.code is refusal


def test_a_topic_that_is_gone_before_its_offset_is_known_stops_no_member_of_a_group() -> None:
    group = Group(auto_offset_reset="earliest")
    group.committed = -1
    group.codes[ListOffsetsResponse] = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    known, code = [topic_led_by(1, 1)], int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    gone = MetadataResponse(topics=[MetadataResponseTopic(name="t", error_code=code)])
    group.metadata = lambda: known.pop() if known else gone
    group.join()
    for _ in range(30):
        group.time += 100
        group.poll()
        assert [reading.position for reading in group.core.fetcher.readings.values()] == [None, None]
    group.metadata = lambda: topic_led_by(1, 1)
    for _ in range(30):
        group.time += 100
        group.poll()
    assert [reading.position for reading in group.core.fetcher.readings.values()] == [70, 71]
