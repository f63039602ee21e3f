"""LeaveGroup, key 13: members leave a classic group."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, String


@struct()
class MemberIdentity:
    member_id: str = field(String, since=3)
    group_instance_id: str | None = field(String, since=3, nullable_since=0, default=None)
    reason: str | None = field(String, since=5, nullable_since=0, default=None)


@message(versions=(0, 5), flexible_since=4)
class LeaveGroupRequest:
    group_id: str = field(String)
    member_id: str = field(String, until=2)
    members: list[MemberIdentity] = field(Array(MemberIdentity), since=3)


@struct()
class MemberResponse:
    member_id: str = field(String, since=3)
    group_instance_id: str | None = field(String, since=3, nullable_since=0)
    error_code: int = field(Int16, since=3)


@message(versions=(0, 5), flexible_since=4)
class LeaveGroupResponse:
    throttle_time_ms: int = field(Int32, since=1)
    error_code: int = field(Int16)
    members: list[MemberResponse] = field(Array(MemberResponse), since=3)


def refusal(request: LeaveGroupRequest, error: int, version: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)
