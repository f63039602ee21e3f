"""CreateAcls (key 30, versions 1 to 3): each ACL by itself; one that is there already is a success (KIP-140)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.acl_requests import ACLS_AT_ONCE, NO_AUTHORIZER, acl_of
from ottla.cluster.commands import CreateAcls
from ottla.kernel.acls import Acl
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    asked: list[Acl | ApiError] = [
        NO_AUTHORIZER if call.node.rights is None else acl_of(each) for each in request.creations
    ]
    acls = list(dict.fromkeys(each for each in asked if isinstance(each, Acl)))
    failed: dict[Acl, ApiError] = {}
    for start in range(0, len(acls), ACLS_AT_ONCE):
        some = tuple(acls[start : start + ACLS_AT_ONCE])
        outcome = await call.node.follow.submit(CreateAcls(some))
        if isinstance(outcome, ApiError):
            failed |= dict.fromkeys(some, outcome)
    return CreateAclsResponse(
        results=[_result(each if isinstance(each, ApiError) else failed.get(each)) for each in asked]
    )


def _result(error: ApiError | None) -> AclCreationResult:
    return AclCreationResult(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )
