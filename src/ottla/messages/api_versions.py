"""ApiVersions, key 18: which APIs, versions and features the broker serves."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int16, Int32, Int64, String


@message(versions=(0, 4), flexible_since=3)
class ApiVersionsRequest:
    client_software_name: str = field(String, since=3)
    client_software_version: str = field(String, since=3)


@struct()
class ApiVersion:
    api_key: int = field(Int16)
    min_version: int = field(Int16)
    max_version: int = field(Int16)


@struct()
class SupportedFeatureKey:
    name: str = field(String, since=3)
    min_version: int = field(Int16, since=3)
    max_version: int = field(Int16, since=3)


@struct()
class FinalizedFeatureKey:
    name: str = field(String, since=3)
    max_version_level: int = field(Int16, since=3)
    min_version_level: int = field(Int16, since=3)


@message(versions=(0, 4), flexible_since=3)
class ApiVersionsResponse:
    error_code: int = field(Int16)
    api_keys: list[ApiVersion] = field(Array(ApiVersion))
    throttle_time_ms: int = field(Int32, since=1)
    supported_features: list[SupportedFeatureKey] = field(Array(SupportedFeatureKey), since=3, tag=0)
    finalized_features_epoch: int = field(Int64, since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(Array(FinalizedFeatureKey), since=3, tag=2)
    zk_migration_ready: bool = field(Bool, since=3, tag=3)


def refusal(request: ApiVersionsRequest, error: int, version: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=error)
