"""/health tells whether a broker serves, and if not, why."""

from __future__ import annotations

import errno

from sim_broker import SimBroker
from sim_cluster import SimCluster

from ottla.server.health import Health, health


def test_a_broker_that_serves_is_healthy() -> None:
    assert health(SimBroker().here.node) == Health((), ())
    assert health(SimBroker().here.node).text() == "serving\n"


def test_a_broker_whose_lease_has_ended_does_not_serve() -> None:
    cluster = SimCluster(3)
    way = cluster.machines[1].current.coordination
    way.cut = True
    cluster.until(lambda: not cluster.node(1).follow.lease_valid())
    found = health(cluster.node(1))
    assert not found.serves
    assert found.text().startswith("not serving\nbecause: the lease has ended")
    way.cut = False
    cluster.until(lambda: health(cluster.node(1)).serves)


def test_a_failed_log_directory_is_a_warning_while_another_serves() -> None:
    broker = SimBroker(more_directories=("/b",))
    broker.here.node.around.disk_failed(OSError(errno.EIO, "Input/output error", "/b/t-0/00000000000000000000.log"))
    found = health(broker.here.node)
    assert found.serves
    assert found.text() == "serving\nwarning: log directory /b has failed\n"
