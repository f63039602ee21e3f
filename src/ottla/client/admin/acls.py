"""ACLs as stories: describe, create and delete the rules about who may do what (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.admin.admin import Resource, ResourceType, describe_cluster, describe_configs
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import refused
from ottla.kernel.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceKind
from ottla.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_OPTIONS = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")


class Authorizer(NamedTuple):
    """The options of a broker that decide beside the ACLs."""

    class_name: str
    """`authorizer.class.name`; empty: no ACL counts, and everybody may do everything."""
    super_users: frozenset[str]
    open_without_acl: bool
    """`allow.everyone.if.no.acl.found`."""


async def describe_authorizer(plan: ClusterPlan) -> Authorizer:
    """The options by which one of the brokers decides beside the ACLs.

    Apache Kafka tells the class alone, and keeps the others secret: they count as not set then.
    """
    broker = Resource(ResourceType.BROKER, str((await describe_cluster(plan)).brokers[0].broker_id))
    found = (await describe_configs(plan, [broker], keys=_OPTIONS))[broker]
    if isinstance(found, Exception):
        raise found
    values = {each.name: each.value or "" for each in found}
    class_name, super_users, is_open = (values.get(name, "") for name in _OPTIONS)
    users = frozenset(each.strip() for each in super_users.split(";") if each.strip())
    return Authorizer(class_name, users, is_open == "true")


async def describe_acls(plan: ClusterPlan, wanted: AclFilter = AclFilter()) -> list[Acl]:  # noqa: B008
    """The ACLs that a filter takes, sorted; without one all of them."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    response = await plan.ask_any(DescribeAclsRequest, DescribeAclsResponse, lambda _: request)
    if response.error_code:
        raise refused(response.error_code, "ACLs", response.error_message)
    return sorted(
        _acl(each.resource_type, each.resource_name, each.pattern_type, acl.principal, acl.host, acl.operation,
             acl.permission_type)
        for each in response.resources
        for acl in each.acls
    )  # fmt: skip


async def create_acls(plan: ClusterPlan, acls: Sequence[Acl]) -> None:
    """Add these ACLs. Those that are there already stay; the first that is refused is raised, others may be done."""
    creations = [
        AclCreation(
            resource_type=acl.resource,
            resource_name=acl.name,
            resource_pattern_type=acl.pattern,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    request = CreateAclsRequest(creations=creations)
    response = await plan.ask_any(CreateAclsRequest, CreateAclsResponse, lambda _: request)
    for acl, result in zip(acls, response.results, strict=False):
        if result.error_code:
            raise refused(result.error_code, str(acl), result.error_message)


async def delete_acls(plan: ClusterPlan, filters: Sequence[AclFilter]) -> list[Acl]:
    """Remove the ACLs that one of the filters takes; returns them, sorted."""
    asked = [
        DeleteAclsFilter(
            resource_type_filter=each.resource,
            resource_name_filter=each.name,
            pattern_type_filter=each.pattern,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in filters
    ]
    request = DeleteAclsRequest(filters=asked)
    response = await plan.ask_any(DeleteAclsRequest, DeleteAclsResponse, lambda _: request)
    gone: set[Acl] = set()
    for result in response.filter_results:
        if result.error_code:
            raise refused(result.error_code, "ACLs", result.error_message)
        for acl in result.matching_acls:
            gone.add(
                _acl(acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation,
                     acl.permission_type)
            )  # fmt: skip
    return sorted(gone)


def _acl(resource: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int) -> Acl:
    kind, action, effect = PatternType(pattern), Operation(operation), Permission(permission)
    return Acl(ResourceKind(resource), name, kind, principal, host, action, effect)
