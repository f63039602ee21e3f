"""Tells the audit log of requests that change something: what was asked for, and with which outcome. No values."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from ottla.kernel.errors import ApiError, ErrorCode
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

Note = Callable[[Mapping[str, object]], None]
Handler = Callable[["Call", Any], Coroutine[Any, Any, Any]]
CHANGES = frozenset(
    {
        "CreateTopics", "DeleteTopics", "CreatePartitions", "DeleteRecords", "DeleteGroups", "OffsetDelete",
        "AlterConfigs", "IncrementalAlterConfigs", "CreateAcls", "DeleteAcls", "CreateDelegationToken",
        "RenewDelegationToken", "ExpireDelegationToken", "AlterUserScramCredentials", "AlterClientQuotas",
        "AlterPartitionReassignments", "AlterReplicaLogDirs", "ElectLeaders", "UpdateFeatures", "UnregisterBroker",
    }
)  # fmt: skip
"""The APIs whose requests are told."""
KEYS = frozenset(key for key, api in APIS.items() if api.name in CHANGES)
_SECRET = frozenset({"value", "salt", "salted_password", "hmac"})
"""Fields that may hold a secret: values of options, and what a password can be guessed from."""
_MOST_ITEMS = 100
_MOST_LETTERS = 16_384


async def audited(handler: Handler, note: Note, call: Call, request: Any) -> Any:
    """The handler's answer, once the audit log has been told."""
    event = {"event": "change", **call.about(), "api": APIS[call.api_key].name, "asked": _asked(request)}
    try:
        answer = await handler(call, request)
    except Exception as fault:
        note(event | {"outcome": [fault.code.name if isinstance(fault, ApiError) else type(fault).__name__]})
        raise
    note(event | {"outcome": sorted(_codes(answer)) or ["NONE"]})
    return answer


def _asked(request: Any) -> Any:
    """The request without secrets; of a very long one the beginning."""
    asked = _plain(request)
    text = json.dumps(asked)
    return asked if len(text) <= _MOST_LETTERS else {"letters": len(text), "beginning": text[:_MOST_LETTERS]}


def _plain(value: Any) -> Any:
    """A message as JSON can have it, without secrets."""
    if (names := _names(value)) is not None:
        return {name: _plain(getattr(value, name)) for name in names if name not in _SECRET}
    if isinstance(value, list | tuple):
        more = len(value) - _MOST_ITEMS
        return [_plain(each) for each in value[:_MOST_ITEMS]] + ([f"and {more} more"] if more > 0 else [])
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def _names(value: Any) -> list[str] | None:
    """The names of a message's fields; None if it is none."""
    schema = getattr(type(value), "__schema__", None)
    return None if schema is None else [field.name for field in schema.fields]


def _codes(value: Any) -> set[str]:
    """The names of all errors in an answer."""
    if isinstance(value, list | tuple):
        return set().union(*map(_codes, value))
    found: set[str] = set()
    for name in _names(value) or ():
        inside = getattr(value, name)
        if name == "error_code":
            found |= {ErrorCode(inside).name} if inside else set()
        else:
            found |= _codes(inside)
    return found
