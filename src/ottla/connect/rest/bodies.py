"""The bodies of calls. As in Kafka, anything that cannot be read as the call needs it is 500, and no type is 415. Pure.

Kafka shows the words of its JSON library and of Java's null pointers there; these name the mistake.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.config.option import nearest
from ottla.connect.machine.offsets import Change
from ottla.connect.machine.records import Target
from ottla.web.exchange import JSON, HttpError, Request

_CREATE: Final = ("name", "config", "initial_state")
_INITIAL: Final = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}


@dataclass(frozen=True, slots=True)
class NewConnector:
    """The body of a call that makes a connector."""

    name: str
    config: Mapping[str, str | None]
    initial: Target


def unreadable(reason: str) -> HttpError:
    """The refusal of a body."""
    return HttpError(500, f"the body cannot be used: {reason}")


def body_of(request: Request, *, numbers_as_text: bool = True) -> Any:
    """The body as JSON. Numbers of configurations become text as they were written."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != JSON:
        raise HttpError(415)
    if not request.body.strip():
        return None
    try:
        text = request.body.decode()
        return json.loads(text, parse_int=str, parse_float=str) if numbers_as_text else json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise unreadable(f"it is no JSON: {fault}") from fault


def config_of(value: Any, what: str = "the configuration") -> dict[str, str | None]:
    """A configuration: an object of text, numbers and truth values, which become text, and nulls."""
    if not isinstance(value, dict):
        raise unreadable(f"{what} is not an object of names and values")
    config: dict[str, str | None] = {}
    for name, each in value.items():
        if isinstance(each, dict | list):
            raise unreadable(f"the value of {name!r} is not text")
        config[name] = str(each).lower() if isinstance(each, bool) else each
    return config


def new_connector(value: Any) -> NewConnector:
    """The body of `POST /connectors`."""
    if not isinstance(value, dict):
        raise unreadable("send an object with name and config")
    for field in value:
        if field not in _CREATE:
            raise unreadable(f"unknown field {field!r}{nearest(field, _CREATE)}; there are: {', '.join(_CREATE)}")
    name, initial = value.get("name"), value.get("initial_state")
    if name is not None and not isinstance(name, str):
        raise unreadable("the name is not text")
    if initial is not None and (not isinstance(initial, str) or initial.upper() not in _INITIAL):
        raise unreadable(f"initial_state is {initial!r}; it may be {', '.join(_INITIAL)}")
    target = _INITIAL[initial.upper()] if initial else Target.STARTED
    return NewConnector((name or "").strip(), config_of(value.get("config")), target)


def changed_offsets(value: Any) -> list[Change]:
    """The body of `PATCH …/offsets`."""
    if not isinstance(value, dict):
        raise unreadable("send an object with offsets")
    for field in value:
        if field != "offsets":
            raise unreadable(f"unknown field {field!r}{nearest(field, ['offsets'])}; there is: offsets")
    given = value.get("offsets")
    if given is None or given == []:
        raise HttpError(400, "Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(given, list):
        raise unreadable("offsets is not a list")
    return [_change(each) for each in given]


def _change(value: Any) -> Change:
    if not isinstance(value, dict) or not set(value) <= {"partition", "offset"}:
        raise unreadable("each of the offsets is an object with partition and offset, and nothing else")
    partition, offset = value.get("partition"), value.get("offset")
    if partition is None:
        raise HttpError(500, "Partition objects cannot be null")
    if not isinstance(partition, dict) or not isinstance(offset, dict | None):
        raise unreadable("partition and offset are objects; an offset may be null")
    return partition, offset
