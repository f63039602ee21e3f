"""Heartbeat, key 12: a member of a classic group says that it lives."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Int16, Int32, String


@message(versions=(0, 4), flexible_since=4)
class HeartbeatRequest:
    group_id: str = field(String)
    generation_id: int = field(Int32)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, since=3, nullable_since=0, default=None)


@message(versions=(0, 4), flexible_since=4)
class HeartbeatResponse:
    throttle_time_ms: int = field(Int32, since=1)
    error_code: int = field(Int16)


def refusal(request: HeartbeatRequest, error: int, version: int) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)
