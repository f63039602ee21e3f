"""Edits of quotas: what is left of an entity's, what a snapshot keeps, and which clusters know them."""

from __future__ import annotations

from clusters import a_cluster

from ottla.cluster.commands import EditQuotas
from ottla.kernel.errors import ErrorCode
from ottla.kernel.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, QuotaEntity
from ottla.metadata import entries as log
from ottla.metadata.snapshot import load_snapshot, take_snapshot
from ottla.metadata.state import METADATA_VERSION

ALICE = QuotaEntity("alice")
BOTH = ((PRODUCER_BYTE_RATE, 10.0), (CONSUMER_BYTE_RATE, 20.0))


def test_an_edit_keeps_the_other_quotas_and_one_that_changes_nothing_writes_nothing() -> None:
    cluster = a_cluster(1)
    cluster.do(EditQuotas(ALICE, BOTH))
    assert cluster.do(EditQuotas(ALICE, BOTH[:1])) == []
    cluster.do(EditQuotas(ALICE, ((PRODUCER_BYTE_RATE, None),)))
    assert cluster.state.quotas == {ALICE: {CONSUMER_BYTE_RATE: 20.0}}
    cluster.do(EditQuotas(ALICE, ((CONSUMER_BYTE_RATE, None),)))
    assert cluster.state.quotas == {}
    assert cluster.do(EditQuotas(ALICE, ((CONSUMER_BYTE_RATE, None),))) == []


def test_a_snapshot_keeps_them() -> None:
    cluster = a_cluster(1)
    for entity in (ALICE, QuotaEntity("", "app"), QuotaEntity(None, "")):
        cluster.do(EditQuotas(entity, BOTH))
    assert load_snapshot(take_snapshot(cluster.state)).quotas == cluster.state.quotas
    assert len(cluster.state.quotas) == 3


def test_they_are_told_as_a_change_once() -> None:
    cluster = a_cluster(1)
    cluster.state.take_changes()
    cluster.do(EditQuotas(ALICE, BOTH))
    changes = cluster.state.take_changes()
    assert changes.quotas
    assert changes.any
    assert not cluster.state.take_changes().quotas


def test_a_cluster_with_an_older_broker_refuses_them() -> None:
    cluster = a_cluster(1)
    cluster.state.apply(cluster.state.version + 1, log.FeatureLevelSet(name=METADATA_VERSION, level=7))
    assert cluster.refused(EditQuotas(ALICE, BOTH)).code == ErrorCode.UNSUPPORTED_VERSION
