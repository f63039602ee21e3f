"""DescribeGroups, key 15: state and members of classic groups."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Bytes, Int16, Int32, String


@message(versions=(0, 6), flexible_since=5)
class DescribeGroupsRequest:
    groups: list[str] = field(Array(String))
    include_authorized_operations: bool = field(Bool, since=3)


@struct()
class DescribedGroupMember:
    member_id: str = field(String)
    group_instance_id: str | None = field(String, since=4, nullable_since=0, default=None)
    client_id: str = field(String)
    client_host: str = field(String)
    member_metadata: bytes = field(Bytes)
    member_assignment: bytes = field(Bytes)


@struct()
class DescribedGroup:
    error_code: int = field(Int16)
    error_message: str | None = field(String, since=6, nullable_since=0, default=None)
    group_id: str = field(String)
    group_state: str = field(String)
    protocol_type: str = field(String)
    protocol_data: str = field(String)
    members: list[DescribedGroupMember] = field(Array(DescribedGroupMember))
    authorized_operations: int = field(Int32, since=3, default=-0x80000000)


@message(versions=(0, 6), flexible_since=5)
class DescribeGroupsResponse:
    throttle_time_ms: int = field(Int32, since=1)
    groups: list[DescribedGroup] = field(Array(DescribedGroup))


def refusal(request: DescribeGroupsRequest, error: int, version: int) -> DescribeGroupsResponse | None:
    groups = [DescribedGroup(group_id=group_id, error_code=error) for group_id in request.groups]
    return DescribeGroupsResponse(groups=groups) if groups else None
