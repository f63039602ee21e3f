"""DeleteGroups, key 42: delete empty groups."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, String


@message(versions=(0, 2), flexible_since=2)
class DeleteGroupsRequest:
    groups_names: list[str] = field(Array(String))


@struct()
class DeletableGroupResult:
    group_id: str = field(String)
    error_code: int = field(Int16)


@message(versions=(0, 2), flexible_since=2)
class DeleteGroupsResponse:
    throttle_time_ms: int = field(Int32)
    results: list[DeletableGroupResult] = field(Array(DeletableGroupResult))


def refusal(request: DeleteGroupsRequest, error: int, version: int) -> DeleteGroupsResponse | None:
    results = [DeletableGroupResult(group_id=group_id, error_code=error) for group_id in request.groups_names]
    return DeleteGroupsResponse(results=results) if results else None
