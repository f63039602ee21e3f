"""A short run of `make once`: copiers of real clients, real brokers, kill -9."""

from __future__ import annotations

import pytest
from cluster_processes import OttlaCluster
from tests.once.copies import OPTIONS, Copies, Scale


@pytest.mark.slow
def test_three_copiers_lose_and_double_nothing_while_brokers_are_killed(tmp_path):
    told: list[str] = []
    with OttlaCluster(tmp_path, 3, *(word for option in OPTIONS for word in ("--set", option))) as cluster:
        ended = Copies(cluster, Scale(6000, 3, seed=1), told.append).run()
    assert ended.differences == []
    assert (ended.kills, len(told)) == (3, 3)
    assert ended.counts.committed >= 8, "transactions of 750 records at most"
