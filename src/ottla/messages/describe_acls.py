"""DescribeAcls, key 29: the ACLs that a filter takes, by their resources."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int8, Int16, Int32, String


@message(versions=(1, 3), flexible_since=2)
class DescribeAclsRequest:
    resource_type_filter: int = field(Int8)
    resource_name_filter: str | None = field(String, nullable_since=0)
    pattern_type_filter: int = field(Int8, default=3)
    principal_filter: str | None = field(String, nullable_since=0)
    host_filter: str | None = field(String, nullable_since=0)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


@struct()
class AclDescription:
    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


@struct()
class DescribeAclsResource:
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    pattern_type: int = field(Int8, default=3)
    acls: list[AclDescription] = field(Array(AclDescription))


@message(versions=(1, 3), flexible_since=2)
class DescribeAclsResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    resources: list[DescribeAclsResource] = field(Array(DescribeAclsResource))


def refusal(request: DescribeAclsRequest, error: int, version: int) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error, error_message=ErrorCode(error).message)
