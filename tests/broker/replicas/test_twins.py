"""A replica that lies in two log directories costs that replica alone, and none of its records is deleted."""

from __future__ import annotations

import logging

import pytest
from sim_broker import SimBroker
from sim_cluster import SimCluster
from test_log_directories import a_produce, create, leader_of, place_of, produce
from test_moves import alter, until_moved
from test_unreadable import is_in_sync, troubles

from ottla.kernel.errors import ErrorCode
from ottla.sim.disk import SimDisk
from ottla.storage.directory.strays import stray_folders

BOTH = ("/data", "/b")


@pytest.fixture
def broker() -> SimBroker:
    """Two log directories, with a partition of one record in each."""
    broker = SimBroker(more_directories=("/b",))
    create(broker)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    return broker


def stop(broker: SimBroker) -> SimDisk:
    broker.here.stop(clean=True).result()
    broker.machine.vanish()
    return broker.machine.disk


def strays_in(disk: SimDisk) -> list[str]:
    return [folder for path in BOTH for folder in stray_folders(disk, path)]


def log_in(disk: SimDisk, folder: str) -> bytes:
    return disk.read(f"{folder}/00000000000000000000.log")


def test_a_replica_in_two_directories_is_offline_alone_until_one_is_moved_out(broker: SimBroker, caplog) -> None:
    disk = stop(broker)
    disk.put_back("/b/t-0", disk.copied("/data/t-0"))
    with caplog.at_level(logging.WARNING):
        broker.start()
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    here, there = troubles(broker)
    assert {here["path"], there["path"]} == {"/data/t-0", "/b/t-0"}
    for one, other in ((here, there), (there, here)):
        assert f"lies in another log directory too, {other['path']}," in one["reason"]
        assert "move the older one out of its directory" in one["reason"]
        assert any(one["reason"] in message for message in caplog.messages)
    broker.loop.run_for(60_000)
    assert log_in(disk, "/data/t-0") == log_in(disk, "/b/t-0") != b""
    stop(broker).rename("/b/t-0", "/elsewhere")
    broker.start()
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 2


def test_an_emptied_replica_that_once_held_records_may_be_the_right_one(broker: SimBroker) -> None:
    """Its checkpoints tell that it held records."""
    disk = stop(broker)
    disk.put_back("/b/t-0", disk.copied("/data/t-0"))
    disk.open("/data/t-0/00000000000000000000.log").truncate(0)
    disk.remove("/data/t-0/00000000000000000001.snapshot")
    broker.start()
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]


def test_where_other_brokers_hold_the_partition_both_are_set_aside_and_it_is_fetched_anew() -> None:
    cluster, victim = SimCluster(3, min_insync_replicas="2", more_directories=("/b",)), 2
    create(cluster, partitions=2, replicas=3)
    cluster.until(lambda: all(("t", 0) in cluster.node(each).replicas.by_name for each in (1, 2, 3)))
    answer = cluster.ask(leader_of(cluster, 0), a_produce(0), most=9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    cluster.until(lambda: cluster.node(victim).replicas.by_name["t", 0].log.end_offset == 1)
    cluster.loop.run_for(20_000)
    cluster.kill(victim)
    disk = cluster.machines[victim].disk
    (held,) = [f"{path}/t-0" for path in BOTH if disk.exists(f"{path}/t-0")]
    (free,) = [f"{path}/t-0" for path in BOTH if not disk.exists(f"{path}/t-0")]
    disk.put_back(free, disk.copied(held))
    written = log_in(disk, held)
    cluster.start(victim)
    replicas = cluster.node(victim).replicas.by_name
    cluster.until(lambda: ("t", 0) in replicas and replicas["t", 0].log.end_offset == 1, 60_000)
    cluster.until(lambda: is_in_sync(cluster, victim), 60_000)
    assert ("t", 1) in replicas
    assert [log_in(disk, folder) for folder in strays_in(disk)] == [written, written]


def test_what_was_moved_out_of_an_older_directory_is_set_aside_with_its_records(broker: SimBroker) -> None:
    disk = stop(broker)
    older = disk.copied("/b")
    broker.start()
    assert alter(broker, "/data", 1) == [0]
    until_moved(broker, "/data")
    assert produce(broker, 1) == 0
    disk = stop(broker)
    disk.put_back("/b", older)
    written = log_in(disk, "/b/t-1")
    broker.start()
    assert place_of(broker, 1) == "/data"
    assert produce(broker, 1) == 0
    assert broker.here.node.replicas.by_name["t", 1].log.end_offset == 3
    (folder,) = strays_in(disk)
    assert folder.startswith("/b/t-1.")
    assert log_in(disk, folder) == written
