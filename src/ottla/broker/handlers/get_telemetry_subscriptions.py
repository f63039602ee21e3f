"""GetTelemetrySubscriptions (key 71, version 0): which metrics a client shall push, and how often (KIP-714).

Unlike Apache Kafka, which serves this only with a plugin, a broker always does; and it asks for sums as they stand, not
for their growth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.telemetry import CODECS, about
from ottla.kernel.errors import ErrorCode
from ottla.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_NO_ID = bytes(16)


async def handle(call: Call, request: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
    node = call.node
    telemetry = node.telemetry
    telemetry.subscribe(node.metadata.configs)
    instance_id = request.client_instance_id
    if instance_id == _NO_ID:
        instance_id = node.entropy.bytes(16)
    asked = telemetry.ask(instance_id, about(call.connection), node.clock.mono_ms())
    if isinstance(asked, ErrorCode):
        return GetTelemetrySubscriptionsResponse(error_code=asked)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=asked.subscription_id,
        accepted_compression_types=list(CODECS),
        push_interval_ms=asked.interval_ms,
        telemetry_max_bytes=node.config.telemetry_max_bytes,
        delta_temporality=False,
        requested_metrics=list(asked.metrics),
    )
