"""SyncGroup, key 14: the leader of a classic group hands out the assignment, the others receive it."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bytes, Int16, Int32, String


@struct()
class SyncGroupRequestAssignment:
    member_id: str = field(String)
    assignment: bytes = field(Bytes)


@message(versions=(0, 5), flexible_since=4)
class SyncGroupRequest:
    group_id: str = field(String)
    generation_id: int = field(Int32)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, since=3, nullable_since=0, default=None)
    protocol_type: str | None = field(String, since=5, nullable_since=0, default=None)
    protocol_name: str | None = field(String, since=5, nullable_since=0, default=None)
    assignments: list[SyncGroupRequestAssignment] = field(Array(SyncGroupRequestAssignment))


@message(versions=(0, 5), flexible_since=4)
class SyncGroupResponse:
    throttle_time_ms: int = field(Int32, since=1)
    error_code: int = field(Int16)
    protocol_type: str | None = field(String, since=5, nullable_since=0, default=None)
    protocol_name: str | None = field(String, since=5, nullable_since=0, default=None)
    assignment: bytes = field(Bytes)


def refusal(request: SyncGroupRequest, error: int, version: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)
