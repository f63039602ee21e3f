"""What the tests of the coordination engines share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from zookeeper_ensemble import ZookeeperEnsemble, zookeeper_jars


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperEnsemble]:
    libs = zookeeper_jars()
    if libs is None:
        pytest.skip("not on this system: Apache ZooKeeper's jars (tools/jars.py zookeeper)")
    ensemble = ZookeeperEnsemble(libs, tmp_path_factory.mktemp("zookeeper"))
    yield ensemble
    ensemble.stop()
