"""AlterConfigs, key 33: replace the configuration of resources."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int8, Int16, Int32, String


@struct()
class AlterableConfig:
    name: str = field(String)
    value: str | None = field(String, nullable_since=0)


@struct()
class AlterConfigsResource:
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configs: list[AlterableConfig] = field(Array(AlterableConfig))


@message(versions=(0, 2), flexible_since=2)
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(Bool)


@struct()
class AlterConfigsResourceResponse:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    resource_type: int = field(Int8)
    resource_name: str = field(String)


@message(versions=(0, 2), flexible_since=2)
class AlterConfigsResponse:
    throttle_time_ms: int = field(Int32)
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))


def refusal(request: AlterConfigsRequest, error: int, version: int) -> AlterConfigsResponse | None:
    responses = [
        AlterConfigsResourceResponse(
            error_code=error, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        for resource in request.resources
    ]
    return AlterConfigsResponse(responses=responses) if responses else None
