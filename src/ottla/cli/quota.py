"""`ottla quota`: the rates that users and clients may have at each broker."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import isfinite

from ottla.cli.command import Command, connected, noun, print_json, print_table, wants_json
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option, nearest_word
from ottla.client.admin.quotas import QuotaFilter
from ottla.kernel.quotas import CLIENT_KEYS, DEFAULT, IP_KEYS, QuotaEntity

_PARTS = ("user", "client-id", "ip")


def command(arguments: Sequence[str]) -> int:
    return noun("quota", VERBS, arguments)


def _list(given: Given) -> int:
    wanted = [QuotaFilter(kind, name) for kind in _PARTS if (name := _name(given, kind)) is not None]
    with connected(given) as admin:
        found = admin.describe_quotas(wanted)
    rows = [(entity, key, value) for entity, quotas in found.items() for key, value in sorted(quotas.items())]
    if wants_json(given):
        print_json([{"entity": _as_json(entity), "quotas": quotas} for entity, quotas in found.items()])
    elif not rows:
        sys.stderr.write("no such quota; `ottla quota set producer_byte_rate=BYTES --user NAME` makes one\n")
    else:
        print_table(["ENTITY", "QUOTA", "VALUE"], [[str(entity), key, _shown(value)] for entity, key, value in rows])
    return 0


def _set(given: Given) -> int:
    entity = _entity(given)
    edits: dict[str, float | None] = {}
    for word in given.words:
        key, equals, text = word.partition("=")
        if not equals:
            raise Misuse(f"{word}: write QUOTA=VALUE")
        _add(edits, entity, key, _number(key, text))
    return _edit(given, entity, edits)


def _unset(given: Given) -> int:
    entity = _entity(given)
    edits: dict[str, float | None] = {}
    for key in given.words:
        _add(edits, entity, key, None)
    return _edit(given, entity, edits)


def _edit(given: Given, entity: QuotaEntity, edits: dict[str, float | None]) -> int:
    with connected(given) as admin:
        gone = [key for key, value in edits.items() if value is None]
        if gone:
            parts = [QuotaFilter(*part) for part in entity.parts.items()]
            kept = admin.describe_quotas(parts, strict=True).get(entity, {})
            if missing := [key for key in gone if key not in kept]:
                raise BadInput(f"{entity} has no {', '.join(missing)}; `ottla quota list` shows what there is")
        admin.alter_quotas(entity, edits)
    if wants_json(given):
        print_json({"entity": _as_json(entity), "quotas": edits})
    else:
        for key, value in edits.items():
            sys.stdout.write(f"{entity}: {f'no {key}' if value is None else f'{key} {_shown(value)}'}\n")
    return 0


def _add(edits: dict[str, float | None], entity: QuotaEntity, key: str, value: float | None) -> None:
    known = CLIENT_KEYS if entity.ip is None else IP_KEYS
    if key not in known:
        near = nearest_word(key, list(known))
        instead = f"did you mean {near}?" if near else f"write {', '.join(known)}"
        raise Misuse(f"{key}: there is no such quota of {entity}; {instead}")
    if key in edits:
        raise Misuse(f"{key} is given twice")
    edits[key] = value


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not isfinite(value) or value <= 0:
        raise Misuse(f"{key}={text}: write a number above 0")
    return value


def _entity(given: Given) -> QuotaEntity:
    names = [_name(given, kind) for kind in _PARTS]
    if not any(name is not None for name in names):
        raise Misuse("name the clients: --user NAME, --client-id ID, --ip ADDRESS, --default-user ...")
    return QuotaEntity(*names)


def _name(given: Given, kind: str) -> str | None:
    """The name of a part; DEFAULT for its default, None where it is not given."""
    if f"default-{kind}" in given:
        if kind in given:
            raise Misuse(f"--{kind} and --default-{kind} exclude each other")
        return DEFAULT
    if kind not in given:
        return None
    name = given.need(kind)
    if not name:
        raise Misuse(f"--{kind} has no name; --default-{kind} is those without a quota of their own")
    return name


def _shown(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def _as_json(entity: QuotaEntity) -> dict[str, str | None]:
    return {kind: name or None for kind, name in entity.parts.items()}


_ENTITY = [
    Option("user", "A user.", "NAME"),
    Option("client-id", "A client id; with --user that of this user.", "ID"),
    Option("ip", "An address.", "ADDRESS"),
    Option("default-user", "Each user that has no quota of its own."),
    Option("default-client-id", "Each client id that has no quota of its own."),
    Option("default-ip", "Each address that has no quota of its own."),
]

VERBS = {
    "list": Command("ottla quota list [--user NAME] [--client-id ID]", "Show quotas.", _list, _ENTITY),
    "set": Command(
        "ottla quota set QUOTA=VALUE... --user NAME",
        "Limit the rates of clients at each broker: producer_byte_rate and consumer_byte_rate in bytes a second, "
        "controller_mutation_rate in partitions made or deleted a second, request_percentage in percent of the time of "
        "a broker, connection_creation_rate of an ip in connections a second.",
        _set,
        _ENTITY,
        words=(1, 5),
    ),
    "unset": Command("ottla quota unset QUOTA... --user NAME", "Take quotas away.", _unset, _ENTITY, words=(1, 5)),
}
