"""The consumer's stories, driven by hand: heartbeats, and what a member says of itself after it was removed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.client.stories import VirtualTime, topic_led_by

from ottla.client.consume.consuming import ConsumerCore
from ottla.client.consume.group_protocol import encode_assignment
from ottla.client.consume.membership import MemberStanding
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.core.effects import Ask
from ottla.client.core.plan import ClusterPlan
from ottla.client.model import ClientSettings, CommittedOffset, GroupMetadata
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.find_coordinator import FindCoordinatorResponse
from ottla.messages.heartbeat import HeartbeatResponse
from ottla.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from ottla.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.messages.sync_group import SyncGroupResponse

PLACE = TopicPartition("t", 0)


class Answers(VirtualTime):
    """One function answers all requests, but for those that find coordinators. Time stands still."""

    def __init__(self, answer: Callable[[Ask[Any]], Any]) -> None:
        super().__init__()
        self.answer = answer
        self.sent: list[Any] = []

    def attempt(self, effect: Any) -> Any:
        if effect.response is FindCoordinatorResponse:
            return FindCoordinatorResponse(node_id=1, host="b", port=1)
        self.sent.append(effect.build(7))
        return self.answer(effect)


def run(story: Coroutine[Any, Any, Any], answer: Callable[[Ask[Any]], Any]) -> list[Any]:
    """Drive a story; the requests that it sent, but for those that find coordinators."""
    world = Answers(answer)
    world.run(story)
    return world.sent


def a_member(**settings: Any) -> ConsumerCore:
    """A consumer in generation 3 of its group that reads one partition from offset 5."""
    core = ConsumerCore(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), ConsumerSettings("g", **settings))
    core.subscribe(["t"])
    member = core.membership
    assert member is not None
    member.join_request(["t"], [], "")
    member.joined(JoinGroupResponse(generation_id=3, protocol_name="range", leader="you", member_id="me"))
    member.synced(SyncGroupResponse(assignment=encode_assignment([PLACE])), now_ms=-10_000)
    core.fetcher.assign({PLACE})
    core.fetcher.readings[PLACE].seek(5)
    return core


def beat(core: ConsumerCore, code: ErrorCode) -> int:
    """The number of heartbeats sent."""
    assert core.membership is not None
    core.membership.heartbeat_at_ms = 0.0
    return len(run(core.heartbeat(), lambda _: HeartbeatResponse(error_code=int(code))))


def test_a_member_sends_heartbeats_until_it_joins_again() -> None:
    core = a_member()
    member = core.membership
    assert member is not None
    for _ in range(3):  # its records are still being handled, and poll has not been called
        assert beat(core, ErrorCode.REBALANCE_IN_PROGRESS) == 1
        assert member.standing is MemberStanding.MUST_REJOIN
    assert beat(core, ErrorCode.UNKNOWN_MEMBER_ID) == 1
    assert member.standing is MemberStanding.OUTSIDE
    assert beat(core, ErrorCode.NONE) == 0


def test_a_member_that_waits_for_the_others_to_join_neither_beats_nor_leaves() -> None:
    core = a_member()
    beat(core, ErrorCode.REBALANCE_IN_PROGRESS)
    joining = core._ask_group(JoinGroupRequest, JoinGroupResponse, JoinGroupRequest())
    joining.send(None)
    core.last_poll_ms = -core.settings.max_poll_interval_ms - 1.0
    assert beat(core, ErrorCode.NONE) == 0
    joining.close()
    assert core.last_poll_ms == 0.0
    assert beat(core, ErrorCode.REBALANCE_IN_PROGRESS) == 1


def committing(code: ErrorCode) -> OffsetCommitResponse:
    part = OffsetCommitResponsePartition(partition_index=0, error_code=int(code))
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])


def test_a_removed_member_commits_as_what_it_was_so_that_it_is_refused() -> None:
    core = a_member()
    assert core.group_metadata == GroupMetadata("g", 3, "me")
    beat(core, ErrorCode.UNKNOWN_MEMBER_ID)
    assert core.group_metadata == GroupMetadata("g", 3, "me")
    (request,) = run(core.commit({PLACE: CommittedOffset(5)}), lambda _: committing(ErrorCode.NONE))
    assert (request.generation_id_or_member_epoch, request.member_id) == (3, "me")


def test_a_static_member_that_a_commit_finds_fenced_does_not_join_again() -> None:
    core = a_member(instance_id="i")
    for story in (core.commit(), core.poll(0)):
        with pytest.raises(ApiError) as raised:
            run(story, lambda _: committing(ErrorCode.FENCED_INSTANCE_ID))
        assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_poll_does_not_look_for_the_position_in_a_partition_without_a_leader() -> None:
    core = ConsumerCore(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), ConsumerSettings())
    core.plan.metadata.take(topic_led_by(1, -1), 0.0, everything=False)
    core.assign([PLACE, TopicPartition("t", 1)])
    end = ListOffsetsPartitionResponse(partition_index=0, offset=7)
    answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[end])])
    run(core.poll(0), lambda _: answer)
    assert [reading.position for reading in core.fetcher.readings.values()] == [7, None]


def test_a_member_of_a_group_is_given_no_partitions_by_hand() -> None:
    core = a_member()
    with pytest.raises(ValueError, match="a consumer of their own"):
        core.assign([PLACE])
    assert core.assignment == {PLACE}


@pytest.mark.parametrize(("instance_id", "asked"), [(None, 1), ("i", 0)])
def test_a_member_that_does_not_poll_in_time_leaves_but_a_static_one_only_falls_silent(
    instance_id: str | None, asked: int
) -> None:
    core = a_member(instance_id=instance_id)
    core.last_poll_ms = -core.settings.max_poll_interval_ms - 1.0
    assert core.membership is not None
    core.membership.heartbeat_at_ms = 0.0
    requests = run(core.heartbeat(), lambda _: LeaveGroupResponse())
    assert [type(request) for request in requests] == [LeaveGroupRequest] * asked
    assert core.membership.standing is MemberStanding.OUTSIDE
    assert beat(core, ErrorCode.NONE) == 0


def test_a_member_that_leaves_is_outside_before_the_group_answers() -> None:
    """A poll that began meanwhile once joined, and the answer then ended the new membership."""
    core = a_member()
    core.last_poll_ms = -core.settings.max_poll_interval_ms - 1.0
    assert core.membership is not None
    leaving = core.heartbeat()
    leaving.send(None)
    assert core.membership.standing is MemberStanding.OUTSIDE
    leaving.close()


def test_a_commit_names_the_leader_epoch_of_the_record_before_the_position() -> None:
    core = a_member()
    core.fetcher.readings[PLACE].seek(5, 2)
    (request,) = run(core.commit(), lambda _: committing(ErrorCode.NONE))
    (part,) = request.topics[0].partitions
    assert (part.committed_offset, part.committed_leader_epoch) == (5, 2)


@pytest.mark.parametrize("topics", ["birds", [], ()])
def test_text_and_no_topics_cannot_be_subscribed_to(topics: Any) -> None:
    """The letters of a text once became topics, which the broker made."""
    core = a_member()
    with pytest.raises(ValueError, match="list of topics"):
        core.subscribe(topics)
    assert core.wanted.names == ["t"]


def test_a_negative_offset_is_refused() -> None:
    core = a_member()
    with pytest.raises(ValueError, match="negative"):
        core.seek(PLACE, -1)
    assert core.fetcher.readings[PLACE].position == 5


def test_a_reset_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"auto_offset_reset is .* not 'smallest'"):
        ConsumerSettings(auto_offset_reset="smallest")
    with pytest.raises(ValueError, match="max_poll_records is a whole number, from 1"):
        ConsumerSettings(max_poll_records=0)


def test_partitions_chosen_by_hand_are_not_told_as_revoked_by_a_group() -> None:
    core = ConsumerCore(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), ConsumerSettings("g"))
    core.assign([PLACE])
    core.subscribe(["t"])
    assert core.assignment == set()


def test_a_heartbeat_waits_for_no_longer_than_the_session_so_that_the_next_coordinator_hears_of_the_member() -> None:
    core = a_member(session_timeout_ms=6_000)
    assert core.membership is not None
    core.membership.heartbeat_at_ms = 0.0
    timeouts: list[int | None] = []

    def answer(ask: Ask[Any]) -> HeartbeatResponse:
        timeouts.append(ask.timeout_ms)
        return HeartbeatResponse()

    run(core.heartbeat(), answer)
    assert timeouts == [6_000]
