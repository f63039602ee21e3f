"""ACLs as values: who may do what with which resource, and filters that choose among them. Numbers are Kafka's."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

ANY = 1
"""In a filter: every type, pattern, operation or permission."""
CLUSTER_NAME = "kafka-cluster"
"""The one resource of type CLUSTER."""
WILDCARD = "*"
"""As a name every resource of the type, as a host every host."""
EVERYBODY = "User:*"


class _Number(IntEnum):
    """Hashed as a number, in C: rights are looked up by these with every request."""

    __hash__ = int.__hash__


class Operation(_Number):
    """Operations on a resource."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceKind(_Number):
    """Types of resources."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


OPERATIONS_OF: dict[ResourceKind, tuple[Operation, ...]] = {
    ResourceKind.TOPIC: tuple(map(Operation, (3, 4, 5, 6, 7, 8, 10, 11))),
    ResourceKind.GROUP: tuple(map(Operation, (3, 6, 8, 10, 11))),
    ResourceKind.CLUSTER: tuple(map(Operation, (5, 7, 8, 9, 10, 11, 12))),
}
"""The operations that answers name as allowed (KIP-430)."""


class PatternType(_Number):
    """Ways to compare the name of an ACL. MATCH stands in filters only: every pattern that fits the name."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(_Number):
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule: the principal may, or must not, do the operation from the host with what fits the pattern."""

    resource: ResourceKind
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def fits(self, name: str) -> bool:
        """True if the pattern covers a resource of this name."""
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    def __str__(self) -> str:
        prefix = "prefix " if self.pattern is PatternType.PREFIXED else ""
        kind = self.resource.name.lower().replace("_", " ")
        return (
            f"{self.permission.name} {self.principal} from {self.host}: {self.operation.name} on "
            f"{kind} {prefix}{self.name}"
        )


class AclFilter(NamedTuple):
    """Chooses ACLs. ANY and None fit everything."""

    resource: int = ANY
    name: str | None = None
    pattern: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def takes(self, acl: Acl) -> bool:
        return (
            self.resource in (ANY, acl.resource)
            and self._takes_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
        )

    def _takes_pattern(self, acl: Acl) -> bool:
        if self.pattern == PatternType.MATCH:
            return self.name is None or acl.fits(self.name)
        return self.pattern in (ANY, acl.pattern) and self.name in (None, acl.name)
