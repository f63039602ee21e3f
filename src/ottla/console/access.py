"""Users with passwords, and ACLs: who may do what. ACLs are granted and revoked here."""

from __future__ import annotations

from typing import Any

from ottla.client.errors import UnsupportedVersion
from ottla.console import lists
from ottla.console.change import AskedChange, command
from ottla.console.desk import Desk
from ottla.console.lists import listing
from ottla.console.urls import url
from ottla.console.view import PageQuery, View, wrong
from ottla.kernel.acls import (
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

PARAMETERS = lists.PARAMETERS
COLUMNS = ("principal", "operation", "resource", "host")
_KINDS = {
    "topic": ResourceKind.TOPIC,
    "group": ResourceKind.GROUP,
    "transactional-id": ResourceKind.TRANSACTIONAL_ID,
    "cluster": ResourceKind.CLUSTER,
}
_ON_IDS = (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT)


async def users(desk: Desk, query: PageQuery) -> View:
    """The users with passwords, and a page of the ACLs. The cluster may have neither, or not show them."""
    faults: list[str] = []
    people: list[dict[str, Any]] = []
    acls: list[Acl] = []
    try:
        found = await desk.admin.describe_users()
        people = [{"name": each.name, "mechanisms": ", ".join(sorted(each.mechanisms))} for each in found]
    except (ApiError, UnsupportedVersion) as fault:
        faults.append(f"Users: {fault}")
    try:
        acls = await desk.admin.describe_acls()
    except (ApiError, UnsupportedVersion) as fault:
        faults.append(f"ACLs: {fault}")
    values = {
        "users": people,
        "faults": faults,
        "list": listing([_row(acl) for acl in acls], query, COLUMNS),
        "columns": COLUMNS,
        "operations": [_word(each) for each in Operation],
        "kinds": list(_KINDS),
    }
    return View("users.html", "Users and ACLs", values)


def _row(acl: Acl) -> dict[str, Any]:
    prefix = "prefix " if acl.pattern is PatternType.PREFIXED else ""
    return {
        "principal": acl.principal,
        "operation": _word(acl.operation),
        "resource": f"{_kind(acl.resource)} {prefix}{acl.name}",
        "host": acl.host,
        "denies": acl.permission is Permission.DENY,
        "fields": {
            "user": acl.principal,
            "operation": _word(acl.operation),
            "kind": _kind(acl.resource),
            "name": acl.name,
            "prefixed": "yes" if acl.pattern is PatternType.PREFIXED else "",
            "host": acl.host,
            "deny": "yes" if acl.permission is Permission.DENY else "",
        },
    }


async def grant(desk: Desk, form: PageQuery) -> AskedChange:
    """One ACL more."""
    acl = _acl(form)

    async def carry_out() -> str:
        await desk.admin.create_acls([acl])
        return f"{acl}: this is a rule now."

    lines = [f"New rule: {acl}."]
    if acl.permission is Permission.DENY:
        lines.append("It counts whatever other rules allow.")
    return AskedChange("Grant", command(desk, "acl", "grant", *_words(acl)), carry_out, url("users"), lines)


async def revoke(desk: Desk, form: PageQuery) -> AskedChange:
    """One ACL less."""
    acl = _acl(form)
    if acl not in await desk.admin.describe_acls():
        raise wrong(f"there is no rule {acl}")

    async def carry_out() -> str:
        await desk.admin.delete_acls([AclFilter(*acl)])
        return f"{acl}: this is no rule any more."

    lines = [f"No longer a rule: {acl}."]
    words = ("acl", "revoke", *_words(acl))
    return AskedChange("Revoke", command(desk, *words), carry_out, url("users"), lines, is_loss=True)


def _acl(form: PageQuery) -> Acl:
    kind = _KINDS[form.choice("kind", tuple(_KINDS), "topic")]
    possible = {_word(each): each for each in (Operation.ALL, *OPERATIONS_OF.get(kind, _ON_IDS))}
    operation = possible[form.choice("operation", tuple(possible), "read")]
    name = CLUSTER_NAME if kind is ResourceKind.CLUSTER else form.need("name")
    prefixed = form.flag("prefixed")
    if prefixed and (kind is ResourceKind.CLUSTER or name == WILDCARD):
        raise wrong("a prefix is the beginning of a name")
    user = form.need("user")
    return Acl(
        kind,
        name,
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        user if user.startswith("User:") else f"User:{user}",
        form.text("host", WILDCARD),
        operation,
        Permission.DENY if form.flag("deny") else Permission.ALLOW,
    )


def _words(acl: Acl) -> list[str]:
    """The arguments of `ottla acl` for one ACL."""
    kind = _kind(acl.resource)
    words = [acl.principal, _word(acl.operation), f"--{kind}", *([] if kind == "cluster" else [acl.name])]
    words += ["--prefixed"] if acl.pattern is PatternType.PREFIXED else []
    words += ["--host", acl.host] if acl.host != WILDCARD else []
    return [*words, *(["--deny"] if acl.permission is Permission.DENY else [])]


def _word(operation: Operation) -> str:
    return operation.name.lower().replace("_", "-")


def _kind(resource: ResourceKind) -> str:
    return resource.name.lower().replace("_", "-")
