"""UnregisterBroker, key 64: forget a broker that will not come back."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Int16, Int32, String


@message(versions=(0, 0), flexible_since=0)
class UnregisterBrokerRequest:
    broker_id: int = field(Int32)


@message(versions=(0, 0), flexible_since=0)
class UnregisterBrokerResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)


def refusal(request: UnregisterBrokerRequest, error: int, version: int) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error)
