"""Builds the answer that refuses a whole request; the place of its error is declared beside its message.

Called by dispatch.py for a handler's own bug and for injected faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.kernel.errors import ErrorCode
from ottla.wire.apis import APIS
from ottla.wire.hot import Fetch, Produce
from ottla.wire.hot_answers import refuse_fetch, refuse_produce

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


def refusal(call: Call, request: Any, error: ErrorCode) -> Any:
    """A message (or ready parts) with `error`; None if the API has no place for one: then the connection ends."""
    if isinstance(request, Produce):
        return refuse_produce(request, call.correlation_id, call.api_version, error)
    if isinstance(request, Fetch):
        return refuse_fetch(request, call.correlation_id, call.api_version, error)
    declared = APIS[call.api_key].refusal
    return declared(request, int(error), call.api_version) if declared is not None else None
