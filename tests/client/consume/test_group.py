"""A member of a group: its heartbeats, what they tell it, and how it leaves."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.consume.members import a_member, beat, run

from ottla.client.consume.membership import MemberStanding
from ottla.client.core.effects import Ask
from ottla.kernel.errors import ErrorCode
from ottla.messages.heartbeat import HeartbeatResponse
from ottla.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def test_a_member_sends_heartbeats_until_it_joins_again() -> None:
    _, member = a_member()
    for _ in range(3):  # its records are still being handled, and poll has not been called
        assert beat(member, ErrorCode.REBALANCE_IN_PROGRESS) == 1
        assert member.membership.standing is MemberStanding.MUST_REJOIN
    assert beat(member, ErrorCode.UNKNOWN_MEMBER_ID) == 1
    assert member.membership.standing is MemberStanding.OUTSIDE
    assert beat(member, ErrorCode.NONE) == 0


def test_a_member_that_waits_for_the_others_to_join_neither_beats_nor_leaves() -> None:
    _, member = a_member()
    beat(member, ErrorCode.REBALANCE_IN_PROGRESS)
    joining = member._ask_group(JoinGroupRequest, JoinGroupResponse, JoinGroupRequest())
    joining.send(None)
    member.last_poll_ms = -member.settings.max_poll_interval_ms - 1.0
    assert beat(member, ErrorCode.NONE) == 0
    joining.close()
    assert member.last_poll_ms == 0.0
    assert beat(member, ErrorCode.REBALANCE_IN_PROGRESS) == 1


@pytest.mark.parametrize(("instance_id", "asked"), [(None, 1), ("i", 0)])
def test_a_member_that_does_not_poll_in_time_leaves_but_a_static_one_only_falls_silent(
    instance_id: str | None, asked: int
) -> None:
    _, member = a_member(instance_id=instance_id)
    member.last_poll_ms = -member.settings.max_poll_interval_ms - 1.0
    member.membership.heartbeat_at_ms = 0.0
    requests = run(member.heartbeat(), lambda _: LeaveGroupResponse())
    assert [type(request) for request in requests] == [LeaveGroupRequest] * asked
    assert member.membership.standing is MemberStanding.OUTSIDE
    assert beat(member, ErrorCode.NONE) == 0


def test_a_member_that_leaves_is_outside_before_the_group_answers() -> None:
    """A poll that began meanwhile once joined, and the answer then ended the new membership."""
    _, member = a_member()
    member.last_poll_ms = -member.settings.max_poll_interval_ms - 1.0
    leaving = member.heartbeat()
    leaving.send(None)
    assert member.membership.standing is MemberStanding.OUTSIDE
    leaving.close()


def test_a_heartbeat_waits_for_no_longer_than_the_session_so_that_the_next_coordinator_hears_of_the_member() -> None:
    _, member = a_member(session_timeout_ms=6_000)
    member.membership.heartbeat_at_ms = 0.0
    timeouts: list[int | None] = []

    def answer(ask: Ask[Any]) -> HeartbeatResponse:
        timeouts.append(ask.timeout_ms)
        return HeartbeatResponse()

    run(member.heartbeat(), answer)
    assert timeouts == [6_000]
