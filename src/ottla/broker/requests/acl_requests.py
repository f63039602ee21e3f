"""ACLs and filters as requests have them, checked: an ACL names one of everything, a filter may leave all open."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.kernel.acls import (
    ANY,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)
from ottla.kernel.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from ottla.messages.create_acls import AclCreation
    from ottla.messages.delete_acls import DeleteAclsFilter
    from ottla.messages.describe_acls import DescribeAclsRequest

ACLS_AT_ONCE = 500
"""The most ACLs of a request that are decided and appended together."""
NO_AUTHORIZER = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


def acl_of(asked: AclCreation) -> Acl | ApiError:
    """The ACL of a request."""
    patterns = frozenset({PatternType.LITERAL, PatternType.PREFIXED})
    if asked.resource_type not in frozenset(ResourceKind):
        return _wrong(f"Invalid resourceType {asked.resource_type}")
    if asked.resource_pattern_type not in patterns:
        return _wrong(f"Invalid patternType {asked.resource_pattern_type}: an ACL is literal (3) or prefixed (4)")
    if asked.operation not in frozenset(Operation):
        return _wrong(f"Invalid operation {asked.operation}")
    if asked.permission_type not in frozenset(Permission):
        return _wrong(f"Invalid permissionType {asked.permission_type}")
    if not asked.resource_name:
        return _wrong("Resource name should not be empty")
    kind, colon, _ = asked.principal.partition(":")
    if not (kind and colon):
        return _wrong(
            f"Could not parse principal from `{asked.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    if asked.resource_type == ResourceKind.CLUSTER and asked.resource_name != CLUSTER_NAME:
        return _wrong(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not asked.host:
        return _wrong("Host should not be empty: * is every host")
    return Acl(
        ResourceKind(asked.resource_type),
        asked.resource_name,
        PatternType(asked.resource_pattern_type),
        asked.principal,
        asked.host,
        Operation(asked.operation),
        Permission(asked.permission_type),
    )


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter | ApiError:
    """The filter of a request."""
    kinds: tuple[tuple[str, int, type[IntEnum]], ...] = (
        ("resourceType", asked.resource_type_filter, ResourceKind),
        ("patternType", asked.pattern_type_filter, PatternType),
        ("operation", asked.operation, Operation),
        ("permissionType", asked.permission_type, Permission),
    )
    for what, number, known in kinds:
        if number != ANY and number not in frozenset(known):
            return _wrong(f"Invalid {what} {number} in a filter")
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _wrong(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, why)
