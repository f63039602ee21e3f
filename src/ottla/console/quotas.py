"""Quotas: the rates that users, client ids and addresses may have at each broker. They are set and taken away here."""

from __future__ import annotations

from math import isfinite
from typing import Any

from ottla.client.admin.quotas import QuotaFilter
from ottla.client.errors import UnsupportedVersion
from ottla.console import lists
from ottla.console.change import AskedChange, command
from ottla.console.desk import Desk
from ottla.console.lists import listing
from ottla.console.urls import url
from ottla.console.view import PageQuery, View, wrong
from ottla.kernel.errors import ApiError
from ottla.kernel.quotas import CLIENT_KEYS, DEFAULT, IP_KEYS, WHOLE, QuotaEntity

PARAMETERS = lists.PARAMETERS
COLUMNS = ("entity", "quota", "value")
UNITS = {
    "producer_byte_rate": "bytes a second",
    "consumer_byte_rate": "bytes a second",
    "request_percentage": "% of a broker's time",
    "controller_mutation_rate": "partitions made or deleted a second",
    "connection_creation_rate": "connections a second",
}
_PARTS = ("user", "client-id", "ip")


async def quotas(desk: Desk, query: PageQuery) -> View:
    """A page of the quotas. The cluster may have none, or not show them."""
    faults: list[str] = []
    rows: list[dict[str, Any]] = []
    try:
        found = await desk.admin.describe_quotas()
        rows = [_row(entity, key, value) for entity, values in found.items() for key, value in sorted(values.items())]
    except (ApiError, UnsupportedVersion) as fault:
        faults.append(f"Quotas: {fault}")
    values = {
        "faults": faults,
        "list": listing(rows, query, COLUMNS),
        "columns": COLUMNS,
        "keys": [{"name": key, "unit": unit} for key, unit in UNITS.items()],
    }
    return View("quotas.html", "Quotas", values)


def _row(entity: QuotaEntity, key: str, value: float) -> dict[str, Any]:
    named = {kind: name for kind, name in entity.parts.items() if name != DEFAULT}
    defaults = {f"default-{kind}": "yes" for kind, name in entity.parts.items() if name == DEFAULT}
    return {
        "entity": str(entity),
        "quota": key,
        "value": value,
        "shown": _text(value),
        "unit": UNITS.get(key, ""),
        "fields": {**named, **defaults, "quota": key},
    }


async def set_quota(desk: Desk, form: PageQuery) -> AskedChange:
    """One quota, new or in place of another value."""
    entity, key = _entity(form), _key(form)
    value = _value(key, form.need("value").strip())
    before = (await _kept(desk, entity)).get(key)

    async def carry_out() -> str:
        await desk.admin.alter_quotas(entity, {key: value})
        return f"{entity}: {key} is {_text(value)} now."

    was = "There is no such quota so far." if before is None else f"It is {_text(before)} so far."
    lines = [f"{entity}: {key} is to be {_text(value)} {UNITS[key]}, at each broker. {was}"]
    words = ("quota", "set", f"{key}={_text(value)}", *_words(entity))
    return AskedChange("Set the quota", command(desk, *words), carry_out, url("quotas"), lines)


async def unset_quota(desk: Desk, form: PageQuery) -> AskedChange:
    """One quota less."""
    entity, key = _entity(form), form.need("quota")
    before = (await _kept(desk, entity)).get(key)
    if before is None:
        raise wrong(f"{entity} has no {key}")

    async def carry_out() -> str:
        await desk.admin.alter_quotas(entity, {key: None})
        return f"{entity}: no {key} any more."

    lines = [f"{entity}: {key} is no longer limited to {_text(before)}. A more general quota may count then."]
    words = ("quota", "unset", key, *_words(entity))
    return AskedChange("Take the quota away", command(desk, *words), carry_out, url("quotas"), lines, is_loss=True)


async def _kept(desk: Desk, entity: QuotaEntity) -> dict[str, float]:
    parts = [QuotaFilter(kind, name) for kind, name in entity.parts.items()]
    return (await desk.admin.describe_quotas(parts, strict=True)).get(entity, {})


def _entity(form: PageQuery) -> QuotaEntity:
    user, client_id, ip = (_name(form, kind) for kind in _PARTS)
    if user is None and client_id is None and ip is None:
        raise wrong("name a user, a client id or an address, or tick what stands for all others")
    if ip is not None and (user is not None or client_id is not None):
        raise wrong("a quota of an address has no user and no client id")
    return QuotaEntity(user, client_id, ip)


def _name(form: PageQuery, kind: str) -> str | None:
    name = form.given.get(kind, "")
    if not form.flag(f"default-{kind}"):
        return name or None
    if name:
        raise wrong(f"{kind} {name}, and all that have no quota of their own: these are two quotas")
    return DEFAULT


def _key(form: PageQuery) -> str:
    key = form.choice("quota", tuple(UNITS), CLIENT_KEYS[0])
    known = CLIENT_KEYS if _name(form, "ip") is None else IP_KEYS
    if key not in known:
        raise wrong(f"there is no {key} of {_entity(form)}; there is {', '.join(known)}")
    return key


def _value(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise wrong(f"{text!r} is no number") from None
    if not isfinite(value) or value <= 0:
        raise wrong(f"{text!r} is no number above 0")
    if key in WHOLE and not value.is_integer():
        raise wrong(f"{key} is a whole number, and {text} is none")
    return value


def _words(entity: QuotaEntity) -> list[str]:
    """The options of `ottla quota` for an entity."""
    return [
        word
        for kind, name in entity.parts.items()
        for word in ([f"--default-{kind}"] if name == DEFAULT else [f"--{kind}", name])
    ]


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)
