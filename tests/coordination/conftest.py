"""Fixtures for the ensemble, and for cables between it and a broker that can be cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cables import Cables
from coordination_stores import ZookeeperKind
from zookeeper_ensemble import ZookeeperEnsemble


@pytest.fixture
def cables(zookeeper: ZookeeperEnsemble) -> Iterator[Cables]:
    some = Cables(zookeeper.ports)
    yield some
    some.close()


@pytest.fixture
def store(zookeeper: ZookeeperEnsemble, cables: Cables) -> Iterator[ZookeeperKind]:
    zookeeper.wait_until_whole()
    opened = ZookeeperKind(zookeeper.hosts)
    yield opened
    cables.mend()
    opened.close()
