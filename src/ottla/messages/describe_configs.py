"""DescribeConfigs, key 32: the configuration of topics, brokers and groups."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int8, Int16, Int32, String


@struct()
class DescribeConfigsResource:
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configuration_keys: list[str] | None = field(Array(String), nullable_since=0)


@message(versions=(1, 4), flexible_since=4)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field(Array(DescribeConfigsResource))
    include_synonyms: bool = field(Bool)
    include_documentation: bool = field(Bool, since=3)


@struct()
class DescribeConfigsSynonym:
    name: str = field(String)
    value: str | None = field(String, nullable_since=0)
    source: int = field(Int8)


@struct()
class DescribeConfigsResourceResult:
    name: str = field(String)
    value: str | None = field(String, nullable_since=0)
    read_only: bool = field(Bool)
    config_source: int = field(Int8, default=-1)
    is_sensitive: bool = field(Bool)
    synonyms: list[DescribeConfigsSynonym] = field(Array(DescribeConfigsSynonym))
    config_type: int = field(Int8, since=3)
    documentation: str | None = field(String, since=3, nullable_since=0)


@struct()
class DescribeConfigsResult:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configs: list[DescribeConfigsResourceResult] = field(Array(DescribeConfigsResourceResult))


@message(versions=(1, 4), flexible_since=4)
class DescribeConfigsResponse:
    throttle_time_ms: int = field(Int32)
    results: list[DescribeConfigsResult] = field(Array(DescribeConfigsResult))


def refusal(request: DescribeConfigsRequest, error: int, version: int) -> DescribeConfigsResponse | None:
    results = [
        DescribeConfigsResult(
            error_code=error, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        for resource in request.resources
    ]
    return DescribeConfigsResponse(results=results) if results else None
