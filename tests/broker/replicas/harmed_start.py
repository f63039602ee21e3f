"""Starts of a broker after a test has harmed its files, and the troubles that it reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from one_topic import state, until_placed
from sim_broker import SimBroker
from sim_cluster import SimCluster
from two_directories import create, produce_to_leader

from ottla.broker.troubles import as_json
from ottla.sim.disk import SimDisk


def restart(broker: SimBroker, harm: Callable[[SimDisk], object], *, clean: bool = True) -> None:
    """Stop or kill the broker, harm its disk, and start it again."""
    if clean:
        broker.here.stop(clean=True).result()
    broker.machine.vanish()
    harm(broker.machine.disk)
    broker.start()


def troubles(broker: SimBroker) -> list[dict[str, Any]]:
    """The faults of its replicas that the broker reports."""
    node = broker.here.node
    told: list[dict[str, Any]] = json.loads(as_json(node.replicas, node.metadata))
    return told


def with_one_killed(victim: int) -> SimCluster:
    """Three brokers whose replicas hold three records; the victim's checkpoints are written, then it is killed."""
    cluster = SimCluster(3, min_insync_replicas="2")
    create(cluster, partitions=2, replicas=3)
    until_placed(cluster, 1, 2, 3)
    for _ in range(3):
        produce_to_leader(cluster, 0)
    cluster.until(lambda: cluster.node(victim).replicas.by_name["t", 0].log.end_offset == 3)
    cluster.loop.run_for(20_000)  # the checkpoints are written
    cluster.kill(victim)
    return cluster


def is_in_sync(cluster: SimCluster, broker: int) -> bool:
    """True if the broker is in sync in t-0."""
    return broker in state(cluster).in_sync
