"""ListConfigResources (key 74, versions 0 and 1): the names of what may have options (KIP-1142).

Version 0 asks only for subscriptions to clients' metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.metadata.state import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    Metadata,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_BROKER_LOGGER = 8
_ALL = (TOPIC_RESOURCE, BROKER_RESOURCE, _BROKER_LOGGER, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


async def handle(call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Broker loggers cannot be configured here: requests for them get empty lists."""
    wanted = request.resource_types or list(_ALL)
    if call.api_version == 0:
        wanted = [CLIENT_METRICS_RESOURCE]
    response = ListConfigResourcesResponse()
    if any(kind not in _ALL for kind in wanted):
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return response
    for kind in sorted(set(wanted)):
        for name in _names(call.node.metadata, kind):
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=kind))
    return response


def _names(metadata: Metadata, kind: int) -> list[str]:
    if kind == TOPIC_RESOURCE:
        return [topic.name for topic in metadata.visible_topics()]
    if kind == BROKER_RESOURCE:
        return [str(broker.broker_id) for broker in metadata.live_brokers()]
    return sorted(name for resource_type, name in metadata.configs if resource_type == kind)
