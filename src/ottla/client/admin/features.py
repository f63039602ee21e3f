"""The features of a cluster as stories: which there are, at which levels they are used, other levels (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.client.core.effects import Ask
from ottla.client.core.link import api_versions_request
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import refused
from ottla.kernel.errors import ApiError
from ottla.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

_FEATURES_SINCE = 3
_UPGRADE_TYPES_SINCE = 1


class UpgradeType(IntEnum):
    """The direction of a change. An unsafe downgrade may lose facts that only the higher level can express."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureLevels(NamedTuple):
    """One feature: the levels that brokers know, and the one that the cluster uses (0: none)."""

    name: str
    least: int
    latest: int
    finalized: int


class DescribedFeatures(NamedTuple):
    """By name; the epoch grows with every change, -1 where the broker tells none."""

    features: list[FeatureLevels]
    epoch: int


async def describe_features(plan: ClusterPlan, broker: int | None = None) -> DescribedFeatures:
    """The cluster's features as one broker, by its id, tells of them; any broker if None."""
    request = api_versions_request()
    if broker is None:
        response = await plan.ask_any(
            ApiVersionsRequest, ApiVersionsResponse, lambda _: request, min_version=_FEATURES_SINCE
        )
    else:
        where = (await plan.broker(broker)).destination()
        response = await Ask(
            where, ApiVersionsRequest, ApiVersionsResponse, lambda _: request, min_version=_FEATURES_SINCE
        )
    if response.error_code:
        raise refused(response.error_code, "features")
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    features = [
        FeatureLevels(each.name, each.min_version, each.max_version, finalized.get(each.name, 0))
        for each in sorted(response.supported_features, key=lambda feature: feature.name)
    ]
    return DescribedFeatures(features, response.finalized_features_epoch)


async def update_features(
    plan: ClusterPlan, levels: Mapping[str, int], kind: UpgradeType | None = None, *, validate_only: bool = False
) -> dict[str, ApiError | None]:
    """Set the levels of features, upwards if no `kind` is given; None for those that were set.

    Newer brokers set all or none. `validate_only` checks and sets nothing.
    """
    way = UpgradeType.UPGRADE if kind is None else kind

    def build(version: int) -> UpdateFeaturesRequest:
        keys = [
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=int(way))
            if version >= _UPGRADE_TYPES_SINCE
            else FeatureUpdateKey(feature=name, max_version_level=level, allow_downgrade=way is not UpgradeType.UPGRADE)
            for name, level in levels.items()
        ]
        return UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)

    response = await plan.ask_controller(
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
        build,
        lambda answer: answer.error_code,
        min_version=_UPGRADE_TYPES_SINCE if validate_only or way is UpgradeType.UNSAFE_DOWNGRADE else 0,
    )
    if response.error_code:
        fault = refused(response.error_code, "features", response.error_message)
        return dict.fromkeys(levels, fault)
    told = {each.feature: each for each in response.results if each.error_code}
    return {
        name: refused(told[name].error_code, f"feature {name}", told[name].error_message) if name in told else None
        for name in levels
    }
