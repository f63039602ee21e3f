"""IncrementalAlterConfigs, key 44: set, delete, append to or subtract from single options of resources."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int8, Int16, Int32, String


@struct()
class AlterableConfig:
    name: str = field(String)
    config_operation: int = field(Int8)
    value: str | None = field(String, nullable_since=0)


@struct()
class AlterConfigsResource:
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configs: list[AlterableConfig] = field(Array(AlterableConfig))


@message(versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(Bool)


@struct()
class AlterConfigsResourceResponse:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    resource_type: int = field(Int8)
    resource_name: str = field(String)


@message(versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = field(Int32)
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))


def refusal(
    request: IncrementalAlterConfigsRequest, error: int, version: int
) -> IncrementalAlterConfigsResponse | None:
    responses = [
        AlterConfigsResourceResponse(
            error_code=error, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        for resource in request.resources
    ]
    return IncrementalAlterConfigsResponse(responses=responses) if responses else None
