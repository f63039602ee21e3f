"""The operations that answers name as allowed (KIP-430): every one where no authorizer is configured.

Each set of operations is a number: bit n stands for operation n of Kafka's ACLs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.acls import CLUSTER_NAME, OPERATIONS_OF, ResourceKind

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_ALL = {resource: sum(1 << operation for operation in operations) for resource, operations in OPERATIONS_OF.items()}


def allowed_operations(call: Call, resource: ResourceKind, name: str = CLUSTER_NAME) -> int:
    """The operations that the caller may do with a resource."""
    rights = call.node.rights
    if rights is None or call.peer is not None:
        return _ALL[resource]
    host, allowed = call.connection.peer_host, 0
    for operation in OPERATIONS_OF[resource]:
        if rights.decide(call.principal, host, operation, resource, name).allowed:
            allowed |= 1 << operation
    return allowed
