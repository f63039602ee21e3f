"""Refusals of requests about quotas, and the entities, keys and values in them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from ipaddress import ip_address
from math import isfinite

from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.quotas import CLIENT_KEYS, IP_KEYS, WHOLE, QuotaEntity
from ottla.messages.alter_client_quotas import AlteredQuotaEntity, QuotaOperation

_FIELDS = {"user": "user", "client-id": "client_id", "ip": "ip"}


def kinds_refused(kinds: Sequence[str], unknown_as: ErrorCode) -> ApiError | None:
    """The refusal of a list of types: each is known and named once, and addresses stand alone."""
    for kind in kinds:
        if not kind:
            return _invalid("The type of an entity is empty: user, client-id and ip are known.")
        if kind not in _FIELDS:
            return ApiError(
                unknown_as,
                f"Unknown type of entity {kind!r}{_nearest(kind, _FIELDS)}: user, client-id and ip are known.",
            )
        if kinds.count(kind) > 1:
            return _invalid(f"The type {kind} is named twice.")
    if "ip" in kinds and len(kinds) > 1:
        return _invalid("Quotas of an ip do not go together with those of users or client ids.")
    return None


def entity_of(parts: Sequence[AlteredQuotaEntity]) -> QuotaEntity | ApiError:
    """The entity that an entry names; null names the default."""
    if not parts:
        return _invalid("The entity is empty: name a user, a client-id or an ip.")
    refused = kinds_refused([each.entity_type for each in parts], ErrorCode.INVALID_REQUEST)
    if refused is not None:
        return refused
    names: dict[str, str] = {}
    for each in parts:
        if each.entity_name == "":
            return _invalid(f"The name of {each.entity_type} is empty; null is the default.")
        names[_FIELDS[each.entity_type]] = each.entity_name or ""
    if names.get("ip"):
        try:
            names["ip"] = str(ip_address(names["ip"]))
        except ValueError:
            return _invalid(f"{names['ip']!r} is not an address: brokers compare addresses, not names.")
    return QuotaEntity(**names)


def edits_of(entity: QuotaEntity, ops: Sequence[QuotaOperation]) -> tuple[tuple[str, float | None], ...] | ApiError:
    """The new value of each key; None takes it away."""
    keys = IP_KEYS if entity.ip is not None else CLIENT_KEYS
    edits: dict[str, float | None] = {}
    for op in ops:
        if op.key not in keys:
            return _invalid(
                f"Unknown quota {op.key!r}{_nearest(op.key, keys)}: {', '.join(keys)} are known for {entity}."
            )
        if op.key in edits:
            return _invalid(f"The quota {op.key} is named twice.")
        if not op.remove and (refused := _value_refused(op)) is not None:
            return refused
        edits[op.key] = None if op.remove else op.value
    return tuple(edits.items())


def _value_refused(op: QuotaOperation) -> ApiError | None:
    if not isfinite(op.value) or op.value <= 0:
        return _invalid(f"The quota {op.key} must be greater than 0, not {op.value}.")
    if op.key in WHOLE and not (op.value.is_integer() and op.value < 1 << 63):
        return _invalid(f"The quota {op.key} must be a whole number below 2^63, not {op.value}.")
    return None


def _nearest(word: str, known: Sequence[str] | dict[str, str]) -> str:
    near = get_close_matches(word, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
