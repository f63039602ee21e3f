"""UpdateFeatures, key 57: set the levels at which the cluster uses features (KIP-584)."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int8, Int16, Int32, String


@struct()
class FeatureUpdateKey:
    feature: str = field(String)
    max_version_level: int = field(Int16)
    allow_downgrade: bool = field(Bool, until=0)
    upgrade_type: int = field(Int8, since=1, default=1)


@message(versions=(0, 2), flexible_since=0)
class UpdateFeaturesRequest:
    timeout_ms: int = field(Int32, default=60000)
    feature_updates: list[FeatureUpdateKey] = field(Array(FeatureUpdateKey))
    validate_only: bool = field(Bool, since=1)


@struct()
class UpdatableFeatureResult:
    feature: str = field(String)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)


@message(versions=(0, 2), flexible_since=0)
class UpdateFeaturesResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    results: list[UpdatableFeatureResult] = field(Array(UpdatableFeatureResult), until=1)


def refusal(request: UpdateFeaturesRequest, error: int, version: int) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error)
