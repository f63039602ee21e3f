"""Decides who may do what, by ACLs as Kafka's StandardAuthorizer does. Pure.

Super users may do everything. Else an ACL that denies goes before every one that allows; without any the answer is no,
unless `allow.everyone.if.no.acl.found` opens resources that no ACL of anybody is about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import chain
from typing import NamedTuple

from ottla.kernel.acls import EVERYBODY, WILDCARD, Acl, Operation, PatternType, Permission, ResourceKind

IMPLIES: dict[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Operations that are allowed with any of these. To deny one of these denies nothing more."""


class Decision(NamedTuple):
    """A yes or a no, and the reason."""

    allowed: bool
    why: str
    rule: Acl | None = None


_SUPER = Decision(True, "a super user")
_OPEN = Decision(True, "no ACL is about the resource, and allow.everyone.if.no.acl.found is on")
_ANY_NAME = "hardcode"
_NO_RULE = Decision(False, "no ACL allows it")


class Rules:
    """An index of ACLs by resource, pattern and principal."""

    def __init__(
        self, acls: Iterable[Acl], *, super_users: Collection[str] = (), open_without_acl: bool = False
    ) -> None:
        self._super_users = frozenset(super_users)
        self._open_without_acl = open_without_acl
        self._by_pattern: dict[tuple[ResourceKind, PatternType, str], dict[str, list[Acl]]] = {}
        self._prefix_sizes: dict[ResourceKind, list[int]] = {}
        sizes: dict[ResourceKind, set[int]] = {}
        for acl in acls:
            of_pattern = self._by_pattern.setdefault((acl.resource, acl.pattern, acl.name), {})
            of_pattern.setdefault(acl.principal, []).append(acl)
            if acl.pattern is PatternType.PREFIXED:
                sizes.setdefault(acl.resource, set()).add(len(acl.name))
        for resource, found in sizes.items():
            self._prefix_sizes[resource] = sorted(found)

    def decide(self, principal: str, host: str, operation: Operation, resource: ResourceKind, name: str) -> Decision:
        """Decide whether a principal may do this; `host` is an address."""
        if principal in self._super_users:
            return _SUPER
        address, enough = address_of(host), IMPLIES.get(operation, frozenset()) | {operation, Operation.ALL}
        allowing: Acl | None = None
        about = False
        for by_principal in self._patterns(resource, name):
            about = True
            for acl in (*by_principal.get(principal, ()), *by_principal.get(EVERYBODY, ())):
                if acl.host != WILDCARD and address_of(acl.host) != address:
                    continue
                if acl.permission is Permission.DENY:
                    if acl.operation in (operation, Operation.ALL):
                        return Decision(False, str(acl), acl)
                elif allowing is None and acl.operation in enough:
                    allowing = acl
        if allowing is not None:
            return Decision(True, str(allowing), allowing)
        return _OPEN if self._open_without_acl and not about else _NO_RULE

    def decide_on_any(self, principal: str, host: str, operation: Operation, resource: ResourceKind) -> Decision:
        """Decide whether there may be a resource of the type with which a principal may do this.

        It needs an allowed pattern that no denied pattern covers whole. As in Kafka, a resource that has any name does,
        too: super users and open resources are found by it.
        """
        some = self.decide(principal, host, operation, resource, _ANY_NAME)
        if some.allowed:
            return some
        own = self._own(principal, host, resource)
        denied = [
            acl for acl in own if acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL)
        ]
        for acl in denied:
            if acl.name == WILDCARD and acl.pattern is PatternType.LITERAL:
                return Decision(False, str(acl), acl)
        enough = IMPLIES.get(operation, frozenset()) | {operation, Operation.ALL}
        for acl in own:
            if acl.permission is Permission.ALLOW and acl.operation in enough and not _covered(acl, denied):
                return Decision(True, str(acl), acl)
        return _NO_RULE

    def decide_on_all(
        self, principal: str, host: str, operation: Operation, resource: ResourceKind, prefix: str = ""
    ) -> Decision:
        """Decide whether a principal may do this with each resource whose name begins so, whether it exists or not.

        One denied name is enough for a no. `allow.everyone.if.no.acl.found` opens them only if no ACL is about any.
        """
        if principal in self._super_users:
            return _SUPER
        own, allowing = self._own(principal, host, resource), IMPLIES.get(operation, frozenset())
        for acl in own:
            denies = acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL)
            if denies and _about_some(acl, prefix):
                return Decision(False, str(acl), acl)
        for acl in own:
            allows = acl.permission is Permission.ALLOW and acl.operation in allowing | {operation, Operation.ALL}
            if allows and _about_all(acl, prefix):
                return Decision(True, str(acl), acl)
        about = any(
            _about_some(acl, prefix)
            for (kind, _, _), by_principal in self._by_pattern.items()
            if kind is resource
            for acl in chain.from_iterable(by_principal.values())
        )
        return _OPEN if self._open_without_acl and not about else _NO_RULE

    def _own(self, principal: str, host: str, resource: ResourceKind) -> list[Acl]:
        """The ACLs on a type of resource that count for a principal at an address."""
        address = address_of(host)
        return [
            acl
            for (kind, _, _), by_principal in self._by_pattern.items()
            if kind is resource
            for acl in (*by_principal.get(principal, ()), *by_principal.get(EVERYBODY, ()))
            if acl.host == WILDCARD or address_of(acl.host) == address
        ]

    def _patterns(self, resource: ResourceKind, name: str) -> Iterator[dict[str, list[Acl]]]:
        """The ACLs of each pattern that covers a resource, by principal."""
        by_pattern = self._by_pattern
        for literal in (name, WILDCARD) if name != WILDCARD else (name,):
            if (found := by_pattern.get((resource, PatternType.LITERAL, literal))) is not None:
                yield found
        for size in self._prefix_sizes.get(resource, ()):
            if size > len(name):
                return
            if (found := by_pattern.get((resource, PatternType.PREFIXED, name[:size]))) is not None:
                yield found


def _about_some(acl: Acl, prefix: str) -> bool:
    """True if the pattern covers a name that begins so."""
    if acl.pattern is PatternType.PREFIXED:
        return acl.name.startswith(prefix) or prefix.startswith(acl.name)
    return acl.name == WILDCARD or acl.name.startswith(prefix)


def _about_all(acl: Acl, prefix: str) -> bool:
    """True if the pattern covers every name that begins so."""
    if acl.pattern is PatternType.PREFIXED:
        return prefix.startswith(acl.name)
    return acl.name == WILDCARD


def _covered(acl: Acl, denied: Iterable[Acl]) -> bool:
    """True if a denying ACL takes everything that this one gives."""
    for deny in denied:
        if deny.pattern is PatternType.PREFIXED:
            if acl.name.startswith(deny.name) and acl.name != WILDCARD:
                return True
        elif acl.pattern is PatternType.LITERAL and acl.name == deny.name:
            return True
    return False


@lru_cache(maxsize=4096)
def address_of(host: str) -> str:
    """An address in one form: Java writes IPv6 in full, a socket gives IPv4 as part of IPv6. Other text stays."""
    if host == WILDCARD:
        return host
    try:
        address = ip_address(host.partition("%")[0].removeprefix("/"))
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
