"""A caller over HTTP, judged by the cluster's ACLs, and the rows of the tables of rights that calls take. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.access.rules import Rules
from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind
from ottla.kernel.errors import ErrorCode

C = TypeVar("C")
_CODES = {
    ResourceKind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceKind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceKind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceKind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True, slots=True)
class HttpCaller:
    """The user who sent a request, and the rules that count for it. Without rules everything is allowed."""

    principal: str = ""
    host: str = ""
    """The address that the request came from."""
    rules: Rules | None = None

    def may(self, operation: Operation, resource: ResourceKind, name: str = CLUSTER_NAME) -> bool:
        """True if the caller may do this with a resource, whether it exists or not."""
        return self.rules is None or self.rules.decide(self.principal, self.host, operation, resource, name).allowed

    def may_all(self, operation: Operation, resource: ResourceKind, prefix: str = "") -> bool:
        """True if the caller may do this with every resource whose name begins so."""
        if self.rules is None:
            return True
        return self.rules.decide_on_all(self.principal, self.host, operation, resource, prefix).allowed

    def refusal(self, operation: Operation, resource: ResourceKind, what: str) -> str:
        """The sentence of a refusal; `what` names the resource."""
        word, kind = operation.name.lower().replace("_", "-"), resource.name.lower().replace("_", " ")
        return f"{self.principal} has no right to {word} on {kind} {what} [{_CODES[resource].name}]"


UNLIMITED = HttpCaller()
"""A caller where nobody is asked who they are, or where the cluster has no ACLs."""


@dataclass(frozen=True, slots=True)
class Right(Generic[C]):
    """A right that a call takes: a row of the table of an interface. `C` is the call as its endpoints see it."""

    operation: Operation
    resource: ResourceKind
    which: str
    """The resources, in words."""
    names: Callable[[C], Iterable[str]]
    """The names of the resources that a call is about; none where the endpoint leaves out what may not be seen."""
    hides: bool = False
    """True if a caller who may not DESCRIBE the resource is answered as if it were not there."""
    told: str = ""
    """The answer to a caller who lacks the right, where it is a special one."""

    @property
    def without(self) -> str:
        """The answer to a caller who lacks the right."""
        if self.told or not self.hides:
            return self.told or "403"
        return "404" if self.operation is Operation.DESCRIBE else "403; 404 without DESCRIBE"

    def lacking(self, caller: HttpCaller, call: C) -> str | None:
        """The first of the resources for which the caller lacks the right; None where there is none."""
        if caller.rules is None:
            return None
        return next((name for name in self.names(call) if not caller.may(self.operation, self.resource, name)), None)

    def is_hidden(self, caller: HttpCaller, name: str) -> bool:
        """True if a caller who lacks the right may not even know whether there is such a resource."""
        return self.hides and not caller.may(Operation.DESCRIBE, self.resource, name)


def cluster(_call: object) -> Iterable[str]:
    """The `names` of a right on the cluster."""
    return (CLUSTER_NAME,)


def filtered(_call: object) -> Iterable[str]:
    """The `names` of a right by which an endpoint leaves out what the caller may not see."""
    return ()
