"""The way in: listeners that ask nobody who they are, and the users of a first start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.access.first_users import parse_first_users
from ottla.broker.node import Node
from ottla.cluster.commands import AddFirstUsers
from ottla.config.listeners import is_loopback
from ottla.config.security import PLAINTEXT, SASL_PLAINTEXT, SSL
from ottla.kernel.errors import ApiError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.config.security import ListenerSecurity


class Exposed(ValueError):
    """A listener that other machines reach and that asks nobody who they are."""


def look_at_listener(
    name: str, bound: tuple[str, int], security: ListenerSecurity, *, insecure: bool, limited: bool
) -> list[str]:
    """The warnings about a listener; Exposed if it must not come up without `ottla.insecure`.

    `limited`: ACLs say what somebody without a name may do.
    """
    if is_loopback(bound[0]):
        return []
    where = f"{name} listens on {bound[0]}:{bound[1]}"
    if security.asks_who or limited:
        if security.protocol in (SASL_PLAINTEXT, PLAINTEXT):
            return [f"{where} and does not encrypt: everybody on the way reads records, passwords (PLAIN) and tokens"]
        return []
    remedy = "set ssl.client.auth=required on it, or " if security.protocol == SSL else ""
    open_to_all = f"{where} and asks nobody who they are: everybody who reaches it may read, write and delete"
    if insecure:
        return [open_to_all]
    raise Exposed(
        f"{open_to_all}. Either {remedy}let `ottla secure init --host NAME` write a folder with certificates and "
        "passwords, in which `ottla start` runs; or, where everybody who reaches it may do everything, give "
        "--insecure (in a file ottla.insecure=true, in the environment KAFKA_OTTLA_INSECURE=true)"
    )


def acls_limit(config: BrokerConfig) -> bool:
    """True if nobody may do more than ACLs say, somebody without a name neither."""
    return bool(config.authorizer_class_name) and not config.allow_everyone_if_no_acl_found


async def take_first_users(node: Node, path: str) -> None:
    """Give the users in a file their passwords' keys, if no user has any yet. ValueError if they cannot be had."""
    if node.metadata.scram:
        return
    try:
        with open(path, encoding="utf-8") as file:
            users = parse_first_users(file.read())
    except OSError as fault:
        raise ValueError(f"ottla.first.users: {path} cannot be read: {fault.strerror}") from fault
    except ValueError as fault:
        raise ValueError(f"ottla.first.users: {path}: {fault}") from None
    outcome = await node.follow.submit(AddFirstUsers(tuple((user.name, user.mechanism, user.keys) for user in users)))
    if isinstance(outcome, ApiError):
        raise ValueError(f"the users of {path} cannot be added: {outcome.message}")
