"""UpdateFeatures (key 57, versions 0 to 2): upgrades or downgrades features, or only validates; all or none (KIP-584).

Version 0 has only `allow_downgrade`, which counts as a safe downgrade. Apache Kafka 4.3 ignores it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.commands import FeatureChange, FeatureUpdate, UpdateFeatures
from ottla.cluster.features import update
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_KINDS = {kind.value: kind for kind in FeatureChange}
_RESULTS_UNTIL = 1


async def handle(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    updates = {each.feature: _update(each, call.api_version) for each in request.feature_updates}
    command = UpdateFeatures(tuple(updates.values()), validate_only=request.validate_only)
    if command.validate_only:
        outcome: object = update(command, call.node.metadata)
    else:
        outcome = await call.node.follow.submit(command)
    response = UpdateFeaturesResponse(error_message=None)
    if isinstance(outcome, ApiError):
        response.error_code = outcome.code
        response.error_message = outcome.message
    elif call.api_version <= _RESULTS_UNTIL:
        response.results = [
            UpdatableFeatureResult(feature=name, error_code=ErrorCode.NONE, error_message=None) for name in updates
        ]
    return response


def _update(asked: FeatureUpdateKey, version: int) -> FeatureUpdate:
    if version == 0:
        kind = FeatureChange.SAFE_DOWNGRADE if asked.allow_downgrade else FeatureChange.UPGRADE
        return FeatureUpdate(asked.feature, asked.max_version_level, kind)
    return FeatureUpdate(asked.feature, asked.max_version_level, _KINDS.get(asked.upgrade_type))
