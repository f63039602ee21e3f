"""Checks of single broker options, beyond a type and bounds: what is wrong with a value, in a sentence."""

from __future__ import annotations

from ipaddress import ip_address

from ottla.config.option import Value, one_of, some_of

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_OLD_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


_ASSIGNORS = some_of("uniform", "range")
_MIGRATION_POLICIES = one_of("bidirectional", "upgrade", "downgrade", "disabled")


def assignors(value: Value) -> str | None:
    return _ASSIGNORS(value) if value else "At least one assignor must be named"


def migration_policy(value: Value) -> str | None:
    return _MIGRATION_POLICIES(value.lower()) if isinstance(value, str) else None


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 65536


def listener_addresses(value: Value) -> str | None:
    for listener in value if isinstance(value, tuple) else ():
        name, separator, address = listener.partition("://")
        host, colon, port = address.rpartition(":")
        if not (name and separator and colon and _is_port(port) and " " not in host):
            return f"{listener} is not NAME://HOST:PORT"
    return None


def authorizer(value: Value) -> str | None:
    """Kafka's own names alone: a class from a configuration is never loaded."""
    if value in ("", STANDARD_AUTHORIZER):
        return None
    if value == _OLD_AUTHORIZER:
        return f"it kept its ACLs in ZooKeeper, and Kafka 4 has it no more; set {STANDARD_AUTHORIZER}"
    return f"there is only {STANDARD_AUTHORIZER}"


def principals(value: Value) -> str | None:
    for principal in str(value).split(";"):
        kind, colon, name = principal.strip().partition(":")
        if principal.strip() and not (kind and colon and name):
            return f"{principal.strip()} is not User:NAME; semicolons stand between principals"
    return None


def user_and_password(value: Value) -> str | None:
    if isinstance(value, str) and not all(value.partition(":")):
        return "it is not USER:PASSWORD"
    return None


def ip_overrides(value: Value) -> str | None:
    for part in str(value).split(","):
        ip, _, count = part.strip().rpartition(":")
        if part.strip() and not (_is_address(ip) and count.isascii() and count.isdigit() and len(count) <= 10):
            return f"{part.strip()} is not IP:COUNT; addresses are compared, not host names"
    return None


def _is_address(text: str) -> bool:
    try:
        ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True


def replica_selector(value: Value) -> str | None:
    if value not in (None, RACK_AWARE):
        return f"there is no replica selector {value} here, only {RACK_AWARE}"
    return None
