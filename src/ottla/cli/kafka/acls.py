"""`kafka-acls`: add, remove and list ACLs, in the words of Apache Kafka's tool."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from ottla.cli.connect import admin_from
from ottla.cli.faults import Misuse
from ottla.cli.kafka.java_errors import java
from ottla.cli.options import Given, Option, Parser
from ottla.client.blocking.admin import Admin
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
from ottla.kernel.errors import ApiError

_NAMED = {
    "topic": ResourceKind.TOPIC,
    "group": ResourceKind.GROUP,
    "transactional-id": ResourceKind.TRANSACTIONAL_ID,
    "delegation-token": ResourceKind.DELEGATION_TOKEN,
    "user-principal": ResourceKind.USER,
}
_OPERATIONS = {
    **OPERATIONS_OF,
    ResourceKind.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceKind.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceKind.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
_PATTERNS = {"any": ANY, "match": PatternType.MATCH, "literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED}
_ACTIONS = ("add", "remove", "list")

PARSER = Parser(
    "This tool helps to manage acls on kafka.",
    [
        Option("bootstrap-server", "Brokers to connect to.", "server to connect to"),
        Option("bootstrap-controller", "Not for this cluster: brokers are their own controllers.", "controller"),
        Option("command-config", "Property file with client options.", "command-config"),
        Option("add", "Indicates you are trying to add ACLs."),
        Option("remove", "Indicates you are trying to remove ACLs."),
        Option("list", "List ACLs for the specified resource, or all of them."),
        Option("allow-principal", "Who is allowed, as User:NAME; may be repeated.", "allow-principal"),
        Option("deny-principal", "Who is denied, as User:NAME; may be repeated.", "deny-principal"),
        Option("allow-host", "Address of those who are allowed; default *.", "allow-host"),
        Option("deny-host", "Address of those who are denied; default *.", "deny-host"),
        Option("principal", "List only the ACLs of this principal; may be repeated.", "principal"),
        Option("operation", "Operation that is allowed or denied; may be repeated. Default: All.", "String"),
        Option("topic", "Topic, * for all; may be repeated.", "topic"),
        Option("group", "Consumer group, * for all; may be repeated.", "group"),
        Option("transactional-id", "Transactional id, * for all; may be repeated.", "transactional-id"),
        Option("delegation-token", "Delegation token, * for all; may be repeated.", "delegation-token"),
        Option("user-principal", "User as a resource; may be repeated.", "user-principal"),
        Option("cluster", "Add or remove cluster ACLs."),
        Option("resource-pattern-type", "literal, prefixed; with --list and --remove any, match.", "String"),
        Option("producer", "The ACLs of a producer."),
        Option("consumer", "The ACLs of a consumer."),
        Option("idempotent", "With --producer: the producer is idempotent."),
        Option("force", "Assume Yes to all queries and do not prompt."),
    ],
)
Pattern = tuple[ResourceKind, str]


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    try:
        _check(given)
        acls = _acls_of(given)
        server = given.text("bootstrap-server")
        if server is None:
            raise Misuse("One of --bootstrap-server or --bootstrap-controller must be specified")
        with admin_from(server, given.text("command-config")) as admin:
            if "add" in given:
                _add(admin, given, acls)
            elif "remove" in given:
                _remove(admin, given, acls)
            else:
                _list(admin, given)
    except ApiError as fault:
        sys.stderr.write(f"Error while executing ACL command: {java(fault)}\n")
        return 1
    except Misuse as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    return 0


def _check(given: Given) -> None:
    if sum(name in given for name in _ACTIONS) != 1:
        raise Misuse("Command must include exactly one action: --list, --add, --remove. ")
    if "bootstrap-controller" in given:
        raise Misuse("--bootstrap-controller is not supported: ask a broker by --bootstrap-server")
    if (text := given.text("resource-pattern-type")) is not None and text.lower() not in _PATTERNS:
        raise Misuse(f"Cannot parse argument '{text}' of option resource-pattern-type")
    if "add" in given and _pattern(given) not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise Misuse("A '--resource-pattern-type' value of 'Any' or 'Match' is not valid when adding acls.")
    for side in ("allow", "deny"):
        if f"{side}-host" in given and f"{side}-principal" not in given:
            raise Misuse(f"The {side}-host option may only be used if {side}-principal is used")
    roles = [name for name in ("producer", "consumer") if name in given]
    if roles and "list" in given:
        raise Misuse(f"Option --list can not be used with --{roles[0]}")
    if "idempotent" in given and "producer" not in given:
        raise Misuse("The --idempotent option is only available if --producer is set")
    if roles and any(name in given for name in ("operation", "deny-principal", "deny-host")):
        raise Misuse(f"With --{roles[0]} no --operation, --deny-principal or --deny-host can be used.")
    if "producer" in given and "topic" not in given:
        raise Misuse("With --producer you must specify a --topic")
    alone = "cluster" in given or ("transactional-id" in given and "producer" not in given)
    if "consumer" in given and ("topic" not in given or "group" not in given or alone):
        raise Misuse(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )
    if not _patterns(given) and "list" not in given:
        raise Misuse("You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
                     "--delegation-token <Delegation Token ID>")  # fmt: skip


def _acls_of(given: Given) -> dict[Pattern, list[Acl]]:
    """The ACLs that the arguments name, by resource; without principals there are none."""
    wanted: dict[Pattern, list[Operation]] = {}
    if "producer" not in given and "consumer" not in given:
        wanted = {pattern: _operations(given, pattern[0]) for pattern in _patterns(given)}
    for pattern, operations in _roles(given).items():
        wanted[pattern] = list(dict.fromkeys([*wanted.get(pattern, ()), *operations]))
    found = {pattern: [*_entries(given, pattern, operations)] for pattern, operations in wanted.items()}
    if "add" in given and not all(found.values()):
        raise Misuse("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    return found


def _roles(given: Given) -> dict[Pattern, list[Operation]]:
    """The operations of --producer and --consumer."""
    found: dict[Pattern, list[Operation]] = {}
    for resource, name in _patterns(given):
        of_producer, of_consumer = "producer" in given, "consumer" in given
        operations: list[Operation] = []
        if resource is ResourceKind.TOPIC:
            operations += [Operation.WRITE, Operation.DESCRIBE, Operation.CREATE] if of_producer else []
            operations += [Operation.READ, Operation.DESCRIBE] if of_consumer else []
        elif resource is ResourceKind.TRANSACTIONAL_ID and of_producer:
            operations += [Operation.WRITE, Operation.DESCRIBE]
        elif resource is ResourceKind.GROUP and of_consumer:
            operations.append(Operation.READ)
        if operations:
            found[resource, name] = list(dict.fromkeys(operations))
    if "idempotent" in given:
        found[ResourceKind.CLUSTER, CLUSTER_NAME] = [Operation.IDEMPOTENT_WRITE]
    return found


def _entries(given: Given, pattern: Pattern, operations: Iterable[Operation]) -> Iterable[Acl]:
    kind = PatternType(max(_pattern(given), PatternType.MATCH))
    kind = PatternType.LITERAL if pattern[0] is ResourceKind.CLUSTER else kind
    for side, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY)):
        hosts = given.all(f"{side}-host") or [WILDCARD]
        for principal in given.all(f"{side}-principal"):
            if ":" not in principal:
                raise Misuse(f"expected a string in format principalType:principalName but got {principal}")
            for host in hosts:
                yield from (Acl(*pattern, kind, principal.strip(), host, one, permission) for one in operations)


def _operations(given: Given, resource: ResourceKind) -> list[Operation]:
    found = [Operation.ALL] if "operation" not in given else []
    possible = (Operation.ALL, *_OPERATIONS[resource])
    for text in given.all("operation"):
        name = "".join(f"_{letter}" if letter.isupper() and number else letter for number, letter in enumerate(text))
        operation = Operation.__members__.get(name.upper()) or Operation.__members__.get(text.upper())
        if operation not in possible:
            raise Misuse(
                f"ResourceType {resource.name} only supports operations [{', '.join(one.name for one in possible)}]"
            )
        found.append(operation)
    return list(dict.fromkeys(found))


def _pattern(given: Given) -> int:
    return _PATTERNS[(given.text("resource-pattern-type") or "literal").lower()]


def _patterns(given: Given) -> list[Pattern]:
    found = [(resource, name.strip()) for option, resource in _NAMED.items() for name in given.all(option)]
    return found + ([(ResourceKind.CLUSTER, CLUSTER_NAME)] if "cluster" in given else [])


def _filters(given: Given) -> list[AclFilter]:
    return [AclFilter(resource, name, _pattern(given)) for resource, name in _patterns(given)]


def _add(admin: Admin, given: Given, acls: Mapping[Pattern, list[Acl]]) -> None:
    for some in acls.values():
        sys.stdout.write(f"Adding ACLs for resource `{_resource(some[0])}`: \n {_lines(some)}\n\n")
        admin.create_acls(some)


def _remove(admin: Admin, given: Given, acls: Mapping[Pattern, list[Acl]]) -> None:
    for (resource, name), some in acls.items():
        wanted = AclFilter(resource, name, _pattern(given))
        shown = _shown(resource, name, _pattern(given))
        if some:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(some)} \n from resource filter `{shown}`? (y/n)"
            )
        else:
            question = f"Are you sure you want to delete all ACLs for resource filter `{shown}`? (y/n)"
        if not _confirmed(given, question):
            continue
        exact = [
            wanted._replace(principal=acl.principal, host=acl.host, operation=acl.operation, permission=acl.permission)
            for acl in some
        ]
        admin.delete_acls(exact or [wanted])


def _confirmed(given: Given, question: str) -> bool:
    if "force" in given:
        return True
    sys.stdout.write(f"{question}\n")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() == "y"


def _list(admin: Admin, given: Given) -> None:
    found: dict[Acl, None] = {}
    for wanted in _filters(given) or [AclFilter()]:
        found |= dict.fromkeys(admin.describe_acls(wanted))
    principals = given.all("principal")
    for principal in principals:
        sys.stdout.write(f"ACLs for principal `{principal}`\n")
        _print(acl for acl in found if acl.principal == principal)
    if not principals:
        _print(found)


def _print(acls: Iterable[Acl]) -> None:
    by_resource: dict[str, list[Acl]] = {}
    for acl in acls:
        by_resource.setdefault(_resource(acl), []).append(acl)
    for resource, some in by_resource.items():
        sys.stdout.write(f"Current ACLs for resource `{resource}`:\n{_lines(some)}\n\n")


def _lines(acls: Iterable[Acl]) -> str:
    return "\n".join(
        f"\t(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
        f"permissionType={acl.permission.name})"
        for acl in acls
    )


def _resource(acl: Acl) -> str:
    return _shown(acl.resource, acl.name, acl.pattern)


def _shown(resource: ResourceKind, name: str, pattern: int) -> str:
    kind = "ANY" if pattern == ANY else PatternType(pattern).name
    return f"ResourcePattern(resourceType={resource.name}, name={name}, patternType={kind})"
