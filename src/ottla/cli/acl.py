"""`ottla acl`: the rules about who may do what, and the answer to "may this user do that, and by which rule"."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ottla.access.rules import Rules, address_of
from ottla.cli.command import Command, connected, noun, print_json, print_table, wants_json
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option, nearest_word
from ottla.kernel.acls import (
    ANY,
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)

_KINDS = {
    "topic": ResourceKind.TOPIC,
    "group": ResourceKind.GROUP,
    "transactional-id": ResourceKind.TRANSACTIONAL_ID,
}
_ON_IDS = (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT)


def command(arguments: Sequence[str]) -> int:
    return noun("acl", VERBS, arguments)


def _list(given: Given) -> int:
    named = _resource(given) if _is_named(given) else None
    wanted = AclFilter(
        resource=ANY if named is None else named[0],
        name=None if named is None else named[1],
        pattern=ANY if named is None else PatternType.MATCH,
        principal=None if "user" not in given else _principal(given.need("user")),
    )
    with connected(given) as admin:
        acls = admin.describe_acls(wanted)
    if wants_json(given):
        print_json([_as_json(acl) for acl in acls])
    elif not acls:
        sys.stderr.write("no such ACL; `ottla acl grant USER OPERATION --topic NAME` makes one\n")
    else:
        rows = [[acl.permission.name, acl.principal, acl.host, _word(acl.operation), _shown(acl)] for acl in acls]
        print_table(["PERMISSION", "PRINCIPAL", "HOST", "OPERATION", "RESOURCE"], rows)
    return 0


def _grant(given: Given) -> int:
    acls = _acls(given)
    with connected(given) as admin:
        admin.create_acls(acls)
    return _said(given, acls)


def _revoke(given: Given) -> int:
    acls = _acls(given)
    with connected(given) as admin:
        gone = admin.delete_acls([AclFilter(*acl) for acl in acls])
    if not gone:
        raise BadInput("there is no such ACL; `ottla acl list` shows those that there are")
    return _said(given, gone, "no longer: ")


def _test(given: Given) -> int:
    """Exit code 1 where it is refused, for scripts."""
    principal, operations = _principal(given.words[0]), _operations(given)
    resource, name = _resource(given)
    host = given.text("host") or "127.0.0.1"
    with connected(given) as admin:
        authorizer = admin.describe_authorizer()
        acls = admin.describe_acls() if authorizer.class_name else []
    rules = Rules(acls, super_users=authorizer.super_users, open_without_acl=authorizer.open_without_acl)
    found = {operation: rules.decide(principal, host, operation, resource, name) for operation in operations}
    is_open = not authorizer.class_name
    answers = {
        operation: (True, "no authorizer is configured: everybody may do everything") if is_open else decision[:2]
        for operation, decision in found.items()
    }
    if wants_json(given):
        print_json(
            [{"operation": _word(one), "allowed": allowed, "why": why} for one, (allowed, why) in answers.items()]
        )
    else:
        for operation, (allowed, why) in answers.items():
            sys.stdout.write(f"{_word(operation)}: {'yes' if allowed else 'no'} ({why})\n")
    return 0 if all(allowed for allowed, _ in answers.values()) else 1


def _said(given: Given, acls: Sequence[Acl], prefix: str = "") -> int:
    if wants_json(given):
        print_json([_as_json(acl) for acl in acls])
    else:
        sys.stdout.write("".join(f"{prefix}{acl}\n" for acl in acls))
    return 0


def _acls(given: Given) -> list[Acl]:
    """The ACLs that the arguments of grant and revoke name."""
    resource, name = _resource(given)
    prefixed = "prefixed" in given
    if prefixed and (resource is ResourceKind.CLUSTER or name == WILDCARD):
        raise Misuse("--prefixed goes with the beginning of a name")
    host = given.text("host") or WILDCARD
    if host != WILDCARD and address_of(host) == host and not _is_address(host):
        raise Misuse(f"--host {host} is not an address: brokers compare addresses, not names")
    return [
        Acl(
            resource,
            name,
            PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            _principal(given.words[0]),
            host,
            operation,
            Permission.DENY if "deny" in given else Permission.ALLOW,
        )
        for operation in _operations(given)
    ]


def _is_address(host: str) -> bool:
    from ipaddress import ip_address

    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _principal(word: str) -> str:
    kind, colon, _ = word.partition(":")
    return word if colon and kind == "User" else f"User:{word}"


def _operations(given: Given) -> list[Operation]:
    """The operations of the second argument; Misuse for one that the resource does not have."""
    resource, _ = _resource(given)
    possible = OPERATIONS_OF.get(resource, _ON_IDS)
    words = {_word(one): one for one in (Operation.ALL, *possible)}
    found = []
    for word in given.words[1].lower().replace("_", "-").split(","):
        if word not in words:
            near = nearest_word(word, list(words))
            instead = f"did you mean {near}?" if near else f"write {', '.join(words)}"
            raise Misuse(f"{word}: there is no such operation on a {_kind(resource)}; {instead}")
        found.append(words[word])
    return list(dict.fromkeys(found))


def _is_named(given: Given) -> bool:
    return "cluster" in given or any(name in given for name in _KINDS)


def _resource(given: Given) -> tuple[ResourceKind, str]:
    named = [name for name in (*_KINDS, "cluster") if name in given]
    if len(named) != 1:
        raise Misuse("name one resource: --topic NAME, --group NAME, --transactional-id NAME or --cluster")
    if named == ["cluster"]:
        return ResourceKind.CLUSTER, CLUSTER_NAME
    name = given.need(named[0])
    if not name:
        raise Misuse(f"--{named[0]} has no name; * is every one")
    return _KINDS[named[0]], name


def _word(operation: Operation) -> str:
    return operation.name.lower().replace("_", "-")


def _kind(resource: ResourceKind) -> str:
    return resource.name.lower().replace("_", " ")


def _shown(acl: Acl) -> str:
    prefix = "prefix " if acl.pattern is PatternType.PREFIXED else ""
    return f"{_kind(acl.resource)} {prefix}{acl.name}" if acl.resource is not ResourceKind.CLUSTER else "cluster"


def _as_json(acl: Acl) -> dict[str, str]:
    return {
        "permission": acl.permission.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "resource": acl.resource.name,
        "name": acl.name,
        "pattern": acl.pattern.name,
    }


_RESOURCES = [
    Option("topic", "A topic; * is every one.", "NAME"),
    Option("group", "A group.", "NAME"),
    Option("transactional-id", "A transactional id.", "ID"),
    Option("cluster", "The cluster itself."),
]
_RULE = [
    *_RESOURCES,
    Option("prefixed", "The name is the beginning of names."),
    Option("host", "The client's address; default: every one.", "ADDRESS"),
    Option("deny", "Forbid it, whatever else allows it."),
]

VERBS = {
    "list": Command(
        "ottla acl list [--user NAME] [--topic NAME]",
        "Show ACLs; with a resource, all that count for it.",
        _list,
        [Option("user", "Only those of this user.", "NAME"), *_RESOURCES],
    ),
    "grant": Command(
        "ottla acl grant USER OPERATION[,OPERATION] --topic NAME",
        "Allow a user operations on a resource, or deny them. USER * is everybody.",
        _grant,
        _RULE,
        words=(2, 2),
    ),
    "revoke": Command(
        "ottla acl revoke USER OPERATION[,OPERATION] --topic NAME",
        "Take back what grant gave, with the same arguments.",
        _revoke,
        _RULE,
        words=(2, 2),
    ),
    "test": Command(
        "ottla acl test USER OPERATION[,OPERATION] --topic NAME",
        "Say whether a user may do it, and by which rule. Exit code 1: not all of it.",
        _test,
        [*_RESOURCES, Option("host", "The client's address; default: 127.0.0.1.", "ADDRESS")],
        words=(2, 2),
    ),
}
