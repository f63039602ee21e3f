"""CreateAcls, key 30: new ACLs, each answered by itself."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int8, Int16, Int32, String


@struct()
class AclCreation:
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    resource_pattern_type: int = field(Int8, default=3)
    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


@message(versions=(1, 3), flexible_since=2)
class CreateAclsRequest:
    creations: list[AclCreation] = field(Array(AclCreation))


@struct()
class AclCreationResult:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)


@message(versions=(1, 3), flexible_since=2)
class CreateAclsResponse:
    throttle_time_ms: int = field(Int32)
    results: list[AclCreationResult] = field(Array(AclCreationResult))


def refusal(request: CreateAclsRequest, error: int, version: int) -> CreateAclsResponse | None:
    results = [AclCreationResult(error_code=error, error_message=ErrorCode(error).message) for _ in request.creations]
    return CreateAclsResponse(results=results) if results else None
