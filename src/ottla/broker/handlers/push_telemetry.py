"""PushTelemetry (key 72, version 0): take a client's metrics, which /metrics shows (KIP-714).

Unlike in Apache Kafka, `telemetry.max.bytes` bounds the metrics decompressed, too, and those that no subscription asks
for are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from ottla.broker.requests.telemetry import about
from ottla.config.client_metrics import ALL_METRICS
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.metrics.otlp import BadOtlp, read_metrics
from ottla.records.compression import Codec, decompress
from ottla.records.faults import CorruptRecords

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call
    from ottla.broker.requests.telemetry import ClientSubscription


async def handle(call: Call, request: PushTelemetryRequest) -> PushTelemetryResponse:
    node = call.node
    telemetry = node.telemetry
    telemetry.subscribe(node.metadata.configs)
    pushed = (request.subscription_id, request.compression_type, len(request.metrics))
    allowed = telemetry.may_push(
        request.client_instance_id,
        about(call.connection),
        node.clock.mono_ms(),
        pushed,
        node.config.telemetry_max_bytes,
        terminating=request.terminating,
    )
    if isinstance(allowed, ApiError):
        return PushTelemetryResponse(error_code=allowed.code)
    error = _take(call, request, allowed) if request.metrics else ErrorCode.NONE
    if error:
        telemetry.failed(request.client_instance_id, error)
    return PushTelemetryResponse(error_code=error)


def _take(call: Call, request: PushTelemetryRequest, allowed: ClientSubscription) -> ErrorCode:
    """Show the metrics; the error where they cannot be read."""
    try:
        most_bytes = call.node.config.telemetry_max_bytes
        content = decompress(Codec(request.compression_type), request.metrics, most_bytes)
        pushed = read_metrics(memoryview(content))
    except CorruptRecords as fault:
        too_large = fault.error == ErrorCode.MESSAGE_TOO_LARGE
        return ErrorCode.TELEMETRY_TOO_LARGE if too_large else ErrorCode.INVALID_RECORD
    except BadOtlp:
        return ErrorCode.INVALID_RECORD
    known = about(call.connection)
    software = f"{known['client_software_name']} {known['client_software_version']}".strip()
    prefixes = [""] if allowed.metrics == (ALL_METRICS,) else allowed.metrics
    held = call.node.telemetry.pushed
    held.left_out += pushed.left_out
    instance = str(UUID(bytes=bytes(request.client_instance_id)))
    held.take(instance, (call.client_id, software, known["client_source_address"]), pushed.points, prefixes)
    return ErrorCode.NONE
