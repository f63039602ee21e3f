"""GetTelemetrySubscriptions, key 71: which metrics a client shall push, and how often (KIP-714)."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Array, Bool, Int8, Int16, Int32, String, Uuid


@message(versions=(0, 0), flexible_since=0)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: bytes = field(Uuid)


@message(versions=(0, 0), flexible_since=0)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    client_instance_id: bytes = field(Uuid)
    subscription_id: int = field(Int32)
    accepted_compression_types: list[int] = field(Array(Int8))
    push_interval_ms: int = field(Int32)
    telemetry_max_bytes: int = field(Int32)
    delta_temporality: bool = field(Bool)
    requested_metrics: list[str] = field(Array(String))


def refusal(request: GetTelemetrySubscriptionsRequest, error: int, version: int) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(error_code=error)
