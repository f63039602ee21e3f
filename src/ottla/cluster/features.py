"""Features that clients and operators see (KIP-584): known ones, levels in the cluster, legal changes of levels.

The level of `metadata.version` says whether every broker knows a feature. That level is raised automatically
(upkeep.py) and is not one of these features: its numbers are ottla's own.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.cluster.brokers import CONSUMER_GROUPS, TRANSACTIONS
from ottla.cluster.commands import FeatureChange, FeatureUpdate, UpdateFeatures
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata import entries as log
from ottla.metadata.state import Metadata


class Feature(NamedTuple):
    """Levels 0 to `latest`; known to every broker from the level `since` of metadata.version on."""

    name: str
    latest: int
    since: int


TRANSACTION_VERSION = Feature("transaction.version", latest=2, since=TRANSACTIONS)
"""From 1 on the log of transactions has flexible records; from 2 on each transaction has its own epoch (KIP-890)."""
GROUP_VERSION = Feature("group.version", latest=1, since=CONSUMER_GROUPS)
"""From 1 on there are groups of the consumer protocol (KIP-848)."""
FEATURES = {feature.name: feature for feature in (TRANSACTION_VERSION, GROUP_VERSION)}


def supported(state: Metadata) -> list[Feature]:
    """The features that every broker knows."""
    return [feature for feature in FEATURES.values() if state.metadata_version() >= feature.since]


def level(state: Metadata, feature: Feature) -> int:
    """The level at which the cluster uses a feature: the latest, unless an operator has set another one."""
    if state.metadata_version() < feature.since:
        return 0
    return min(state.features.get(feature.name, feature.latest), feature.latest)


def update(command: UpdateFeatures, state: Metadata) -> list[log.Body] | ApiError:
    """Set all these levels, or none if one of them is refused."""
    for one in command.updates:
        reason = _why_not(one, state)
        if reason is not None:
            return ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {one.level} for feature {one.feature}. {reason}",
            )
    if command.validate_only:
        return []
    return [
        log.FeatureLevelSet(name=one.feature, level=one.level)
        for one in command.updates
        if one.level != level(state, FEATURES[one.feature])
    ]


def _why_not(update: FeatureUpdate, state: Metadata) -> str | None:
    """The refusal in the words of Apache Kafka's controller, as far as they fit."""
    if update.kind is None:
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    feature = FEATURES.get(update.feature)
    if feature is None or feature not in supported(state):
        return "The cluster does not support this feature."
    if update.level > feature.latest:
        return f"The cluster only supports versions 0-{feature.latest}"
    current = level(state, feature)
    if update.level < current and update.kind is FeatureChange.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > current and update.kind is not FeatureChange.UPGRADE:
        return "Can't downgrade to a newer version."
    return None
