"""PushTelemetry, key 72: metrics of a client, as OTLP has them (KIP-714)."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Bool, Bytes, Int8, Int16, Int32, Uuid


@message(versions=(0, 0), flexible_since=0)
class PushTelemetryRequest:
    client_instance_id: bytes = field(Uuid)
    subscription_id: int = field(Int32)
    terminating: bool = field(Bool)
    compression_type: int = field(Int8)
    metrics: bytes = field(Bytes)


@message(versions=(0, 0), flexible_since=0)
class PushTelemetryResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)


def refusal(request: PushTelemetryRequest, error: int, version: int) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=error)
