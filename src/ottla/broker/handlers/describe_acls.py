"""DescribeAcls (key 29, versions 1 to 3): the ACLs that a filter takes (KIP-140, KIP-290)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.acl_requests import NO_AUTHORIZER, filter_of
from ottla.kernel.errors import ApiError
from ottla.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    if call.node.rights is None:
        return _refused(NO_AUTHORIZER)
    wanted = filter_of(request)
    if isinstance(wanted, ApiError):
        return _refused(wanted)
    found: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in sorted(call.node.metadata.acls):
        if not wanted.takes(acl):
            continue
        pattern = (acl.resource, acl.name, acl.pattern)
        resource = found.get(pattern)
        if resource is None:
            resource = found[pattern] = DescribeAclsResource(
                resource_type=acl.resource, resource_name=acl.name, pattern_type=acl.pattern
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
        )
    return DescribeAclsResponse(error_message=None, resources=list(found.values()))


def _refused(error: ApiError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=error.message)
