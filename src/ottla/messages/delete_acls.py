"""DeleteAcls, key 31: remove the ACLs that filters take; each filter is answered with what it took."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int8, Int16, Int32, String


@struct()
class DeleteAclsFilter:
    resource_type_filter: int = field(Int8)
    resource_name_filter: str | None = field(String, nullable_since=0)
    pattern_type_filter: int = field(Int8, default=3)
    principal_filter: str | None = field(String, nullable_since=0)
    host_filter: str | None = field(String, nullable_since=0)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


@message(versions=(1, 3), flexible_since=2)
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = field(Array(DeleteAclsFilter))


@struct()
class DeleteAclsMatchingAcl:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    pattern_type: int = field(Int8, default=3)
    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


@struct()
class DeleteAclsFilterResult:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    matching_acls: list[DeleteAclsMatchingAcl] = field(Array(DeleteAclsMatchingAcl))


@message(versions=(1, 3), flexible_since=2)
class DeleteAclsResponse:
    throttle_time_ms: int = field(Int32)
    filter_results: list[DeleteAclsFilterResult] = field(Array(DeleteAclsFilterResult))


def refusal(request: DeleteAclsRequest, error: int, version: int) -> DeleteAclsResponse | None:
    results = [
        DeleteAclsFilterResult(error_code=error, error_message=ErrorCode(error).message) for _ in request.filters
    ]
    return DeleteAclsResponse(filter_results=results) if results else None
