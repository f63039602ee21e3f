"""ACLs as parts of entries, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.kernel.acls import Acl, Operation, PatternType, Permission, ResourceKind
from ottla.metadata.entries import ENTRY_LIMIT, AclEntry

_WEIGHT_LIMIT = ENTRY_LIMIT // 2


def acl_of(entry: AclEntry) -> Acl:
    """The ACL in an entry."""
    return Acl(
        ResourceKind(entry.resource_type),
        entry.name,
        PatternType(entry.pattern_type),
        entry.principal,
        entry.host,
        Operation(entry.operation),
        Permission(entry.permission),
    )


def split_acls(acls: Iterable[Acl]) -> Iterator[list[AclEntry]]:
    """Runs of ACLs that fit into one entry each (rule C4)."""
    run: list[AclEntry] = []
    weight = 0
    for acl in acls:
        own = 32 + 4 * (len(acl.name) + len(acl.principal) + len(acl.host))
        if run and weight + own > _WEIGHT_LIMIT:
            yield run
            run, weight = [], 0
        run.append(_entry_of(acl))
        weight += own
    if run:
        yield run


def _entry_of(acl: Acl) -> AclEntry:
    return AclEntry(
        resource_type=acl.resource,
        name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission=acl.permission,
    )
