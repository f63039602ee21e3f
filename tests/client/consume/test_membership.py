"""A group member's machine: its requests, and the effect of each answer."""

from __future__ import annotations

import pytest

from ottla.client.consume.assignors import COOPERATIVE_STICKY, RANGE
from ottla.client.consume.group_protocol import (
    MemberSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ottla.client.consume.membership import Lost, Membership, MembershipSettings, MemberStanding
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition as P
from ottla.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.messages.sync_group import SyncGroupResponse


def a_member(*assignors: object, **settings: object) -> Membership:
    return Membership(MembershipSettings("g", assignors or (RANGE,), **settings))  # type: ignore[arg-type]


def admitted(member: Membership, *, leader: str = "me", generation: int = 1, protocol: str = "range") -> bool:
    others = [
        JoinGroupResponseMember(member_id=name, metadata=encode_subscription(MemberSubscription(("t",))))
        for name in ("me", "you")
    ]
    return member.joined(
        JoinGroupResponse(
            generation_id=generation,
            protocol_name=protocol,
            leader=leader,
            member_id="me",
            members=others if leader == "me" else [],
        )
    )


def in_the_group(member: Membership) -> Membership:
    member.join_request(["t"], [], "")
    assert admitted(member, leader="you")
    assert member.synced(SyncGroupResponse(assignment=encode_assignment([P("t", 0)])), now_ms=0) == (P("t", 0),)
    return member


def test_a_newcomer_joins_again_with_the_id_that_it_was_given() -> None:
    member = a_member()
    assert member.join_request(["t"], [], "").member_id == ""
    assert not member.joined(JoinGroupResponse(error_code=int(ErrorCode.MEMBER_ID_REQUIRED), member_id="me"))
    assert member.join_request(["t"], [], "").member_id == "me"


def test_the_leader_assigns_for_everyone_and_the_others_for_nobody() -> None:
    member = a_member()
    member.join_request(["t"], [], "")
    assert admitted(member)
    assert member.wanted_topics == ["t"]
    request = member.sync_request({"t": 3})
    shared = {each.member_id: decode_assignment(bytes(each.assignment)) for each in request.assignments}
    assert shared == {"me": (P("t", 0), P("t", 1)), "you": (P("t", 2),)}
    follower = a_member()
    follower.join_request(["t"], [], "")
    assert admitted(follower, leader="you")
    assert follower.sync_request({}).assignments == []


def test_an_assignor_that_was_not_offered_ends_the_attempt() -> None:
    with pytest.raises(ApiError, match="roundrobin"):
        admitted(a_member(), protocol="roundrobin")


def test_only_cooperative_members_tell_what_they_hold() -> None:
    from ottla.client.consume.group_protocol import decode_subscription

    held = [P("t", 1)]
    for assignor, told in ((RANGE, ()), (COOPERATIVE_STICKY, (P("t", 1),))):
        (protocol,) = a_member(assignor).join_request(["t"], held, "").protocols
        assert decode_subscription(bytes(protocol.metadata)).owned == told


def test_heartbeats_fall_due_after_each_interval() -> None:
    member = in_the_group(a_member(heartbeat_interval_ms=100))
    assert member.heartbeat_at_ms == 100
    request = member.heartbeat_request(now_ms=120)
    assert (request.generation_id, request.member_id) == (1, "me")
    assert member.heartbeat_at_ms == 220


@pytest.mark.parametrize(
    ("code", "lost", "standing"),
    [
        (ErrorCode.NONE, Lost.NOTHING, MemberStanding.MEMBER),
        (ErrorCode.REBALANCE_IN_PROGRESS, Lost.GENERATION, MemberStanding.MUST_REJOIN),
        (ErrorCode.UNKNOWN_MEMBER_ID, Lost.EVERYTHING, MemberStanding.OUTSIDE),
        (ErrorCode.ILLEGAL_GENERATION, Lost.EVERYTHING, MemberStanding.OUTSIDE),
    ],
)
def test_what_a_heartbeats_answer_means(code: ErrorCode, lost: Lost, standing: MemberStanding) -> None:
    member = in_the_group(a_member())
    assert member.answered(code, generation=1) is lost
    assert member.standing is standing


def test_an_answer_of_an_earlier_generation_means_nothing() -> None:
    member = in_the_group(a_member())
    assert member.answered(ErrorCode.UNKNOWN_MEMBER_ID, generation=0) is Lost.NOTHING
    assert member.standing is MemberStanding.MEMBER


def test_a_fenced_static_member_stops() -> None:
    member = in_the_group(a_member(instance_id="i"))
    with pytest.raises(ApiError) as raised:
        member.answered(ErrorCode.FENCED_INSTANCE_ID, generation=1)
    assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_rebalance_during_sync_joins_again_and_a_lost_id_starts_over() -> None:
    member = a_member()
    member.join_request(["t"], [], "")
    admitted(member)
    assert member.synced(SyncGroupResponse(error_code=int(ErrorCode.REBALANCE_IN_PROGRESS)), 0) is None
    assert member.member_id == "me"
    assert member.synced(SyncGroupResponse(error_code=int(ErrorCode.UNKNOWN_MEMBER_ID)), 0) is None
    assert (member.member_id, member.standing) == ("", MemberStanding.OUTSIDE)


def test_leaving_names_the_member_in_every_version() -> None:
    member = in_the_group(a_member())
    request = member.leave("closing")
    assert member.standing is MemberStanding.OUTSIDE
    assert request(0).member_id == "me"
    assert [each.member_id for each in request(3).members] == ["me"]


def test_a_member_that_must_rejoin_may_still_be_removed() -> None:
    member = in_the_group(a_member())
    member.rejoin()
    assert member.answered(ErrorCode.REBALANCE_IN_PROGRESS, generation=1) is Lost.GENERATION
    assert member.standing is MemberStanding.MUST_REJOIN
    assert member.answered(ErrorCode.UNKNOWN_MEMBER_ID, generation=1) is Lost.EVERYTHING
    assert member.standing is MemberStanding.OUTSIDE
