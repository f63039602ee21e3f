"""ListConfigResources, key 74: the resources that have a configuration."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int8, Int16, Int32, String


@message(versions=(0, 1), flexible_since=0)
class ListConfigResourcesRequest:
    resource_types: list[int] = field(Array(Int8), since=1)


@struct()
class ConfigResource:
    resource_name: str = field(String)
    resource_type: int = field(Int8, since=1, default=16)


@message(versions=(0, 1), flexible_since=0)
class ListConfigResourcesResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    config_resources: list[ConfigResource] = field(Array(ConfigResource))


def refusal(request: ListConfigResourcesRequest, error: int, version: int) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=error)
