"""Three brokers are stopped and started one after the other under load, without an error at clients."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cluster_processes import OttlaCluster, until
from roll_from import roll, source_of
from rolling import Load

LAST_AT_LEVEL_1 = "1b68fe5"
"""The last commit that supports only `metadata.version` 1."""


def test_no_request_fails_and_nothing_is_lost_or_doubled_while_each_broker_is_restarted(tmp_path: Path) -> None:
    options = ("--set", "offsets.topic.num.partitions=3", "--set", "group.initial.rebalance.delay.ms=0")
    with OttlaCluster(tmp_path, 3, *options) as cluster, Load(cluster) as load:
        for broker in cluster.brokers.values():
            load.goes_on()
            assert broker.stop() == 0, broker.log()
            broker.start()
            until(load.in_sync)
        load.goes_on()
        load.check()


def test_nor_does_anybody_where_each_broker_comes_back_as_the_next_release_at_a_later_level(tmp_path: Path) -> None:
    try:
        source_of(LAST_AT_LEVEL_1, tmp_path / "probe")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the repository's history is not here")
    assert roll(LAST_AT_LEVEL_1, tmp_path / "cluster", rounds=1) > 100
