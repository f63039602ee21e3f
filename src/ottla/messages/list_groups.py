"""ListGroups, key 16: the groups that a broker coordinates."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, String


@message(versions=(0, 5), flexible_since=3)
class ListGroupsRequest:
    states_filter: list[str] = field(Array(String), since=4)
    types_filter: list[str] = field(Array(String), since=5)


@struct()
class ListedGroup:
    group_id: str = field(String)
    protocol_type: str = field(String)
    group_state: str = field(String, since=4)
    group_type: str = field(String, since=5)


@message(versions=(0, 5), flexible_since=3)
class ListGroupsResponse:
    throttle_time_ms: int = field(Int32, since=1)
    error_code: int = field(Int16)
    groups: list[ListedGroup] = field(Array(ListedGroup))


def refusal(request: ListGroupsRequest, error: int, version: int) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error)
