"""A consumer that is a member of its group, and brokers that one function answers for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tests.client.stories import VirtualTime

from ottla.client.consume.consuming import ConsumerCore
from ottla.client.consume.group import GroupMember
from ottla.client.consume.group_protocol import encode_assignment
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.core.effects import Ask
from ottla.client.core.plan import ClusterPlan
from ottla.client.model import ClientSettings
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.find_coordinator import FindCoordinatorResponse
from ottla.messages.heartbeat import HeartbeatResponse
from ottla.messages.join_group import JoinGroupResponse
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


def a_member(now: Callable[[], float] = lambda: 0.0, **settings: Any) -> tuple[ConsumerCore, GroupMember]:
    """A consumer in generation 3 of its group that reads one partition from offset 5."""
    core = ConsumerCore(ClusterPlan("b:1", ClientSettings(), now), ConsumerSettings("g", **settings))
    member = core.subscribe(["t"])
    membership = member.membership
    membership.join_request(["t"], [], "")
    membership.joined(JoinGroupResponse(generation_id=3, protocol_name="range", leader="you", member_id="me"))
    membership.synced(SyncGroupResponse(assignment=encode_assignment([PLACE])), now_ms=-10_000)
    core.fetcher.assign({PLACE})
    core.fetcher.readings[PLACE].seek(5)
    return core, member


def beat(member: GroupMember, code: ErrorCode) -> int:
    """The number of heartbeats sent."""
    member.membership.heartbeat_at_ms = 0.0
    return len(run(member.heartbeat(), lambda _: HeartbeatResponse(error_code=int(code))))


def committing(code: ErrorCode) -> OffsetCommitResponse:
    part = OffsetCommitResponsePartition(partition_index=0, error_code=int(code))
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])
