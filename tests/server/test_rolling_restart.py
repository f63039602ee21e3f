"""Three brokers stopped and started one after the other under load: nobody notices."""

from __future__ import annotations

from pathlib import Path

from cluster_processes import OttlaCluster, until
from rolling import Load


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
