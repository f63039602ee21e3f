"""DeleteAcls (key 31, versions 1 to 3): remove what the filters take; all filters are decided together (KIP-140)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.acl_requests import NO_AUTHORIZER, filter_of
from ottla.cluster.commands import DeleteAcls
from ottla.kernel.acls import Acl, AclFilter
from ottla.kernel.errors import ApiError
from ottla.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.metadata.acls import acl_of
from ottla.metadata.entries import AclsRemoved

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    asked: list[AclFilter | ApiError] = [
        NO_AUTHORIZER if call.node.rights is None else filter_of(each) for each in request.filters
    ]
    filters = tuple(each for each in asked if isinstance(each, AclFilter))
    removed: list[Acl] | ApiError = []
    if filters:
        outcome = await call.node.follow.submit(DeleteAcls(filters))
        removed = (
            outcome
            if isinstance(outcome, ApiError)
            else [acl_of(entry) for body in outcome.entries if isinstance(body, AclsRemoved) for entry in body.acls]
        )
    return DeleteAclsResponse(filter_results=[_result(each, removed) for each in asked])


def _result(asked: AclFilter | ApiError, removed: list[Acl] | ApiError) -> DeleteAclsFilterResult:
    """The answer of a filter; an ACL that several filters take is in the answer of each."""
    if isinstance(asked, ApiError):
        return DeleteAclsFilterResult(error_code=asked.code, error_message=asked.message)
    if isinstance(removed, ApiError):
        return DeleteAclsFilterResult(error_code=removed.code, error_message=removed.message)
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=acl.resource,
                resource_name=acl.name,
                pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in removed
            if asked.takes(acl)
        ],
    )
