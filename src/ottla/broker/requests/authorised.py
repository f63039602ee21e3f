"""Asks for the rights of a request before its handler runs, by the rows of wire/checks.py that have a step.

A request is refused whole, or its refused items are taken out, and put into the handler's answer with their error. Both
refusals are those that are declared beside the messages, so that their shape is known in every version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from copy import copy
from typing import TYPE_CHECKING, Any

from ottla.broker.requests.refusals import refusal
from ottla.broker.waiting import next_turn
from ottla.cluster.topics import name_error
from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind
from ottla.schema.message import schema_of
from ottla.wire.apis import APIS
from ottla.wire.checks import Check, Each, Whole, steps

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_CREATE_TOPICS = 19
_A_TURN = 500
"""The items that are asked for in one turn of the loop."""
_FAILED = "Authorization failed."
"""Kafka's text where an answer has one."""
Handler = Callable[["Call", Any], Coroutine[Any, Any, Any]]


async def authorised(handler: Handler, call: Call, request: Any) -> Any:
    """The answer of the handler to what the caller may ask for, and the refusal of the rest."""
    refused: list[tuple[str, Any]] = []
    left = True
    for check in steps(call.api_key, call.api_version):
        if isinstance(check.step, Whole):
            if (answer := _whole(call, request, check, check.step)) is not None:
                return answer
        elif isinstance(check.step, Each) and (items := getattr(request, check.step.items)):
            kept, denied = await _sorted_out(call, check, check.step, items)
            if denied:
                refused.append((check.step.into, _answer_to(call, request, check, check.step, denied)))
                setattr(request, check.step.items, kept)
                left = bool(kept)
    if not refused:
        return await handler(call, request)
    # An empty list may stand for everything: where nothing is left the handler is not asked.
    answer = await handler(call, request) if left else APIS[call.api_key].response()
    for into, answer_to in refused:
        setattr(answer, into, [*getattr(answer, into), *getattr(answer_to, into)])
    return answer


def _whole(call: Call, request: Any, check: Check, step: Whole) -> Any:
    """The refusal of the request; None if the caller may ask."""
    name = CLUSTER_NAME if not step.named else getattr(request, step.named) or ""
    if _may(call, check, name, step.unless):
        return None
    assert check.code is not None
    answer = refusal(call, request, check.code)
    if answer is None:  # nothing was named that could be refused
        return APIS[call.api_key].response()
    _explain(call, answer, check.code.message)
    return answer


async def _sorted_out(call: Call, check: Check, step: Each, items: list[Any]) -> tuple[list[Any], list[Any]]:
    """The items that are left to the handler, and those that the caller may not ask for."""
    if step.unless is not None and call.may(step.unless, ResourceKind.CLUSTER, CLUSTER_NAME, told=False):
        return items, []
    named = [_name(item, step) for item in items]
    times = Counter(zip(named, (getattr(item, "resource_type", 0) for item in items), strict=True))
    kept: list[Any] = []
    denied: list[Any] = []
    for number, (item, name) in enumerate(zip(items, named, strict=True), 1):
        if number % _A_TURN == 0:
            await next_turn(call.node.clock)
        kind = getattr(item, "resource_type", 0)
        left = (
            (step.types and kind not in step.types)
            or (step.repeated_first and times[name, kind] > 1)
            or (step.invalid_first and name_error(name) is not None)
            or (known := _known_name(call, name, step)) is None
            or _may(call, check, known)
        )
        (kept if left else denied).append(item)
    return kept, denied


def _name(item: Any, step: Each) -> Any:
    return getattr(item, step.named) if step.named else item


def _known_name(call: Call, name: Any, step: Each) -> str | None:
    """The name behind an id; None where there is no such topic, which the handler says."""
    if step.named != "topic_id":
        return str(name)
    topic = call.node.metadata.topic_by_id(name)
    return None if topic is None else topic.name


def _may(call: Call, check: Check, name: str, unless: Operation | None = None) -> bool:
    assert isinstance(check.operation, Operation)
    assert check.resource is not None
    cluster = check.resource is ResourceKind.CLUSTER
    if unless is not None and call.may(unless, ResourceKind.CLUSTER, CLUSTER_NAME, told=False):
        return True
    return call.may(check.operation, check.resource, CLUSTER_NAME if cluster else name)


def _answer_to(call: Call, request: Any, check: Check, step: Each, denied: list[Any]) -> Any:
    """The refusal of a request for the denied items alone."""
    only = copy(request)
    setattr(only, step.items, denied)
    assert check.code is not None
    answer = refusal(call, only, check.code)
    if answer is None:  # items without partitions: there is no place for an error
        return APIS[call.api_key].response()
    for result in getattr(answer, step.into):
        _explain(call, result, _FAILED if call.api_key == _CREATE_TOPICS else check.code.message)
    return answer


def _explain(call: Call, result: Any, message: str) -> None:
    """Say why in words, where an answer of this version has a place for it."""
    for field in schema_of(type(result)).fields:
        if field.name == "error_message" and field.is_in(call.api_version):
            result.error_message = message
