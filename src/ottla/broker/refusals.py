"""The answer that refuses a whole request: one error code in every place where its response has one.

dispatch.py comes here for a handler's own bug and for injected faults; access control will.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.kernel.errors import ErrorCode
from ottla.wire.apis import APIS
from ottla.wire.hot import Fetch, Produce
from ottla.wire.hot_answers import FetchAnswer, encode_produced

if TYPE_CHECKING:
    from ottla.broker.dispatch import Call

_NAMES = (
    ("topics", "topics"),
    ("topics", "responses"),
    ("topic_data", "responses"),
    ("topic_names", "responses"),
    ("resources", "results"),
    ("resources", "responses"),
    ("groups", "groups"),
    ("groups_names", "results"),
)
"""Pairs of lists: what was asked for, and where the answer says how each went."""


def refusal(call: Call, request: Any, error: ErrorCode) -> Any:
    """A message (or ready parts) that says `error`; None where only closing the connection can say it."""
    if isinstance(request, Produce):
        topics = [
            (name, topic_id, [(index, int(error), -1, -1, -1) for index, _ in partitions])
            for name, topic_id, partitions in request.topics
        ]
        return [] if request.acks == 0 else [encode_produced(call.correlation_id, call.api_version, topics, 0)]
    if isinstance(request, Fetch):
        return FetchAnswer(
            call.correlation_id, call.api_version, throttle_ms=0, error=int(error), session_id=0, topics=0
        ).finish([])
    response = APIS[call.api_key].response()
    said = _say(response, error)
    for asked_name, answered_name in _NAMES:
        asked = getattr(request, asked_name, None)
        if asked and hasattr(response, answered_name):
            _mirror(asked, getattr(response, answered_name), type(response), answered_name, error)
            said = True
    return response if said else None


def _say(message: Any, error: ErrorCode) -> bool:
    if hasattr(message, "error_code"):
        message.error_code = int(error)
        return True
    return False


def _mirror(asked: list[Any], answered: list[Any], owner: type, field_name: str, error: ErrorCode) -> None:
    """Answer each thing asked for with its own name and the error."""
    from ottla.schema.message import schema_of

    element = next(field.struct for field in schema_of(owner).fields if field.name == field_name)
    if element is None:
        return
    for item in asked:
        answer = element()
        if isinstance(item, str):
            _copy_name(answer, item)
        else:
            for field in schema_of(type(item)).fields:
                value = getattr(item, field.name)
                if isinstance(value, (str, int, bytes)) and hasattr(answer, field.name):
                    setattr(answer, field.name, value)
            partitions = getattr(item, "partitions", None)
            if isinstance(partitions, list) and hasattr(answer, "partitions"):
                _mirror(partitions, answer.partitions, element, "partitions", error)
        _say(answer, error)
        answered.append(answer)


def _copy_name(answer: Any, name: str) -> None:
    for field_name in ("name", "group_id", "topic"):
        if hasattr(answer, field_name):
            setattr(answer, field_name, name)
