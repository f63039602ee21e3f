"""`kafka-configs` for users, client ids and addresses: their quotas, and users' keys of SCRAM."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.access.mechanisms.scram import NUMBERS
from ottla.cli.faults import Misuse
from ottla.client.admin.quotas import QuotaFilter
from ottla.kernel.java_numbers import double_text
from ottla.kernel.quotas import CLIENT_KEYS, IP_KEYS, QuotaEntity

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

PART_OF = {"users": "user", "clients": "client-id", "ips": "ip"}
_PRINTED = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_MECHANISMS = frozenset(NUMBERS.values())
_ITERATIONS = 4096
_KEYS = re.compile(r"(?:iterations=(-?[0-9]+),)?password=(.*)", re.DOTALL)


def check(kinds: Sequence[str], names: Sequence[str], *, altered: bool) -> None:
    """Refuse what cannot be meant, mostly in Kafka's words."""
    if len(set(kinds)) != len(kinds):
        raise Misuse(f"Duplicate entity type(s) specified: {','.join(kinds)}")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise Misuse("Only 'users' and 'clients' entity types may be specified together")
    if len(names) > len(kinds):
        raise Misuse("More entity names specified than entity types")
    if altered and len(names) < len(kinds):
        raise Misuse(f"Each of {', '.join(kinds)} needs a name, or its default, with --alter")


def describe(admin: Admin, kinds: Sequence[str], names: Sequence[str]) -> None:
    """Print the quotas, and of users alone the mechanisms by which they log in."""
    padded = [*names, *[None] * (len(kinds) - len(names))]
    filters = [QuotaFilter(PART_OF[kind], name) for kind, name in zip(kinds, padded, strict=True)]
    for entity, quotas in admin.describe_quotas(filters, strict=True).items():
        values = ", ".join(f"{key}={double_text(value)}" for key, value in quotas.items())
        sys.stdout.write(f"Quota configs for {_printed(entity)} are {values}\n")
    if kinds != ["users"] or "" in names:
        return
    for user in admin.describe_users():
        if not names or user.name in names:
            keys = ", ".join(f"{mechanism}=iterations={count}" for mechanism, count in user.mechanisms.items())
            sys.stdout.write(f"SCRAM credential configs for user-principal '{user.name}' are {keys}\n")


def alter(
    admin: Admin, kinds: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    """Change quotas, or a user's keys of SCRAM."""
    keys = IP_KEYS if kinds == ["ips"] else CLIENT_KEYS
    of_scram = [name for name in (*added, *deleted) if name in _MECHANISMS] if kinds == ["users"] else []
    unknown = [name for name in (*added, *deleted) if name not in keys and name not in of_scram]
    if unknown:
        raise Misuse(f"Only {', '.join(keys)} can be changed for {', '.join(kinds)}. Unexpected: {', '.join(unknown)}")
    if of_scram and len(of_scram) < len(added) + len(deleted):
        raise Misuse("Cannot alter both quota and SCRAM credential configs simultaneously for 'users'.")
    if of_scram:
        _alter_keys(admin, names[0], added, deleted)
    else:
        named = dict(zip((PART_OF[kind] for kind in kinds), names, strict=True))
        entity = QuotaEntity(named.get("user"), named.get("client-id"), named.get("ip"))
        kept = admin.describe_quotas([QuotaFilter(*part) for part in named.items()], strict=True).get(entity, {})
        if missing := [key for key in deleted if key not in kept]:
            raise Misuse(f"Invalid config(s): {','.join(missing)}: there is no such quota to delete")
        edits: dict[str, float | None] = {key: _number(key, text) for key, text in added.items()}
        admin.alter_quotas(entity, edits | dict.fromkeys(deleted))
    if names[0]:
        sys.stdout.write(f"Completed updating config for {kinds[0].removesuffix('s')} {names[0]}.\n")
    else:
        sys.stdout.write(f"Completed updating default config for {kinds[0]} in the cluster.\n")


def _alter_keys(admin: Admin, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    if not user:
        raise Misuse("The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials.")
    for mechanism, text in added.items():
        keys = _KEYS.fullmatch(text)
        if keys is None:
            raise Misuse(f"Invalid value of {mechanism}: write [iterations=NUMBER,password=PASSWORD]")
        try:
            admin.set_password(user, keys[2], mechanism, int(keys[1] or _ITERATIONS))
        except ValueError as fault:
            raise Misuse(str(fault)) from None
    for mechanism in deleted:
        admin.remove_password(user, mechanism)


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Misuse(f"Cannot parse quota configuration value for {key}: {text}") from None


def _printed(entity: QuotaEntity) -> str:
    return ", ".join(
        f"{_PRINTED[kind]} '{name}'" if name else f"the default {_PRINTED[kind]}" for kind, name in entity.parts.items()
    )
