"""JoinGroup, key 11: become, or stay, a member of a classic group."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Bytes, Int16, Int32, String


@struct()
class JoinGroupRequestProtocol:
    name: str = field(String)
    metadata: bytes = field(Bytes)


@message(versions=(0, 9), flexible_since=6)
class JoinGroupRequest:
    group_id: str = field(String)
    session_timeout_ms: int = field(Int32)
    rebalance_timeout_ms: int = field(Int32, since=1, default=-1)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, since=5, nullable_since=0, default=None)
    protocol_type: str = field(String)
    protocols: list[JoinGroupRequestProtocol] = field(Array(JoinGroupRequestProtocol))
    reason: str | None = field(String, since=8, nullable_since=0, default=None)


@struct()
class JoinGroupResponseMember:
    member_id: str = field(String)
    group_instance_id: str | None = field(String, since=5, nullable_since=0, default=None)
    metadata: bytes = field(Bytes)


@message(versions=(0, 9), flexible_since=6)
class JoinGroupResponse:
    throttle_time_ms: int = field(Int32, since=2)
    error_code: int = field(Int16)
    generation_id: int = field(Int32, default=-1)
    protocol_type: str | None = field(String, since=7, nullable_since=0, default=None)
    protocol_name: str | None = field(String, nullable_since=7)
    leader: str = field(String)
    skip_assignment: bool = field(Bool, since=9)
    member_id: str = field(String)
    members: list[JoinGroupResponseMember] = field(Array(JoinGroupResponseMember))


def refusal(request: JoinGroupRequest, error: int, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error)
