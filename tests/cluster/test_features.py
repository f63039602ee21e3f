"""Features at the levels that an operator sets: upgrades, downgrades, refusals, older brokers (KIP-584)."""

from __future__ import annotations

import pytest
from clusters import Decisions, a_cluster

from ottla.cluster import features
from ottla.cluster.commands import FeatureChange, FeatureUpdate, UpdateFeatures
from ottla.cluster.features import TRANSACTION_VERSION, Feature, level, supported
from ottla.kernel.errors import ErrorCode
from ottla.metadata.entries import FeatureLevelSet
from ottla.metadata.snapshot import load_snapshot, take_snapshot
from ottla.metadata.state import METADATA_VERSION, Metadata

NAME = "transaction.version"


def to(
    level: int, kind: FeatureChange | None = FeatureChange.UPGRADE, *, name: str = NAME, validate_only: bool = False
) -> UpdateFeatures:
    return UpdateFeatures((FeatureUpdate(name, level, kind),), validate_only=validate_only)


def downgraded(cluster: Decisions, level: int = 1) -> Decisions:
    cluster.do(to(level, FeatureChange.SAFE_DOWNGRADE))
    return cluster


def test_a_new_cluster_uses_every_feature_at_its_latest_level() -> None:
    state = a_cluster(1).state
    assert [(each.name, level(state, each)) for each in supported(state)] == [(NAME, 2), ("group.version", 1)]


@pytest.mark.parametrize("kind", [FeatureChange.SAFE_DOWNGRADE, FeatureChange.UNSAFE_DOWNGRADE])
def test_a_level_goes_down_and_up_again_and_stands_in_snapshots(kind: FeatureChange) -> None:
    cluster = a_cluster(1, 2)
    assert cluster.do(to(0, kind)) == [FeatureLevelSet(name=NAME, level=0)]
    assert level(cluster.state, TRANSACTION_VERSION) == 0
    assert level(load_snapshot(take_snapshot(cluster.state)), TRANSACTION_VERSION) == 0
    cluster.do(to(2))
    assert level(cluster.state, TRANSACTION_VERSION) == 2


def test_the_level_that_is_used_already_is_no_entry() -> None:
    cluster = a_cluster(1)
    for kind in FeatureChange:
        assert cluster.do(to(2, kind)) == []


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (to(1), "Can't downgrade the version of this feature without setting the upgrade type"),
        (to(3), "only supports versions 0-2"),
        (to(-1, FeatureChange.SAFE_DOWNGRADE), "A feature version cannot be less than 0."),
        (to(1, name="no.feature"), "does not support this feature"),
        (to(1, name=METADATA_VERSION), "does not support this feature"),
        (to(1, None), "does not support the given upgrade type"),
    ],
    ids=str,
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_cannot_be_is_refused_with_its_reason(command: UpdateFeatures, reason: str, validate_only: bool) -> None:
    error = a_cluster(1).refused(command._replace(validate_only=validate_only))
    assert error.code is ErrorCode.INVALID_UPDATE_VERSION
    assert reason in error.message


def test_a_downgrade_does_not_go_up() -> None:
    error = downgraded(a_cluster(1)).refused(to(2, FeatureChange.SAFE_DOWNGRADE))
    assert "Can't downgrade to a newer version" in error.message


def test_one_refused_feature_refuses_all() -> None:
    cluster = a_cluster(1)
    good = FeatureUpdate(NAME, 1, FeatureChange.SAFE_DOWNGRADE)
    bad = FeatureUpdate("no.feature", 1, FeatureChange.SAFE_DOWNGRADE)
    assert "no.feature" in cluster.refused(UpdateFeatures((good, bad))).message
    assert level(cluster.state, TRANSACTION_VERSION) == 2


def test_a_dry_run_changes_nothing() -> None:
    assert a_cluster(1).do(to(1, FeatureChange.SAFE_DOWNGRADE, validate_only=True)) == []


def test_a_feature_that_some_broker_does_not_know_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster(1)
    later = Feature("of.later", latest=1, since=cluster.state.metadata_version() + 1)
    monkeypatch.setitem(features.FEATURES, later.name, later)
    assert later not in supported(cluster.state) and level(cluster.state, later) == 0
    assert "does not support" in cluster.refused(to(1, name=later.name)).message


def test_a_level_that_a_later_release_has_set_counts_as_the_latest_one_known() -> None:
    state = Metadata()
    state.apply(1, FeatureLevelSet(name=METADATA_VERSION, level=TRANSACTION_VERSION.since))
    state.apply(2, FeatureLevelSet(name=NAME, level=9))
    assert level(state, TRANSACTION_VERSION) == 2
