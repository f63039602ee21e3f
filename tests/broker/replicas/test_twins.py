"""A replica that lies in two log directories costs that replica alone, and none of its records is deleted."""

from __future__ import annotations

import errno
import logging

import pytest
from harmed_start import is_in_sync, troubles
from moving import alter, until_moved
from one_topic import until_placed
from sim_broker import SimBroker
from sim_cluster import SimCluster
from two_directories import BOTH, create, place_of, produce, produce_to_leader, two_directories

from ottla.kernel.errors import ErrorCode
from ottla.sim.disk import SimDisk
from ottla.storage.directory.move_notes import write_move
from ottla.storage.directory.strays import stray_folders
from ottla.storage.log import Log


@pytest.fixture
def broker() -> SimBroker:
    return two_directories()


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
        assert f"lies in another log directory too ({other['path']})," in one["reason"]
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
    until_placed(cluster, 1, 2, 3)
    produce_to_leader(cluster, 0)
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


def served(broker: SimBroker, index: int = 0) -> Log | None:
    partition = broker.here.node.replicas.by_name.get(("t", index))
    return None if partition is None else partition.log


def test_in_doubt_neither_is_served_when_the_other_ones_directory_fails(broker: SimBroker) -> None:
    disk = stop(broker)
    older = disk.copied("/data/t-0")
    broker.start()
    assert produce(broker, 0) == 0
    stop(broker).put_back("/b/t-0", older)
    broker.start()
    assert served(broker) is None
    stop(broker).broken["/b"] = None
    broker.start()
    assert served(broker) is None, "the newer one, but who could know"
    (trouble,) = troubles(broker)
    assert "which is not here, and may be newer there" in trouble["reason"]
    stop(broker).broken.clear()
    disk.remove_tree("/b/t-0")
    disk.sync_directory("/b")
    broker.start()
    found = served(broker)
    assert found is not None and found.end_offset == 2
    assert not disk.exists("/data/t-0/moving")


def test_an_administrator_takes_a_copy_whose_other_directory_is_gone_by_removing_the_note(broker: SimBroker) -> None:
    disk = stop(broker)
    disk.put_back("/b/t-0", disk.copied("/data/t-0"))
    broker.start()
    stop(broker).broken["/b"] = None
    broker.start()
    (trouble,) = troubles(broker)
    assert "remove /data/t-0/moving to take this copy" in trouble["reason"]
    stop(broker).remove("/data/t-0/moving")
    broker.start()
    assert produce(broker, 0) == 0


def test_records_in_an_older_directory_are_not_given_up_for_a_folder_that_never_held_one() -> None:
    broker = SimBroker(more_directories=("/b",))
    disk = broker.machine.disk
    disk.fail("sync names", errno.EIO, where="/b/t-1")
    disk.fail("remove", errno.EIO, where="/b/t-1/0")
    create(broker)
    broker.loop.run_for(200)
    assert disk.exists("/b/t-1") and place_of(broker, 1) == "/data"
    assert [produce(broker, 1) for _ in range(3)] == [0] * 3
    broker.loop.run_for(20_000)
    older = disk.copied("/data")
    stop(broker).broken["/b"] = None
    broker.start()
    assert produce(broker, 1) == 0
    stop(broker).broken.clear()
    disk.put_back("/data", older)
    broker.start()
    assert place_of(broker, 1) == "/data"
    assert produce(broker, 1) != 0, "it waits for the newer directory, or for an administrator"
    found = served(broker, 1)
    assert found is not None and found.end_offset == 3
    assert not strays_in(disk)


def test_what_lies_in_a_directory_that_was_away_gives_way_to_what_was_served(broker: SimBroker) -> None:
    older = stop(broker).copied("/b/t-1")
    broker.start()
    assert alter(broker, "/data", 1) == [0]
    until_moved(broker, "/data")
    disk = stop(broker)
    disk.broken["/b"] = None
    broker.start()
    assert produce(broker, 1) == 0
    stop(broker).broken.clear()
    disk.put_back("/b/t-1", older)
    broker.start()
    found = served(broker, 1)
    assert found is not None and (place_of(broker, 1), found.end_offset) == ("/data", 2)
    assert len(strays_in(disk)) == 1


def test_a_third_copy_beside_the_two_halves_of_a_move_leaves_all_in_doubt() -> None:
    broker = SimBroker(more_directories=("/b", "/c"))
    create(broker, partitions=3)
    (index,) = (index for index in range(3) if place_of(broker, index) == "/c")
    assert produce(broker, index) == 0
    ids = {each.path: each.directory_id for each in broker.here.node.replicas.directories.online}
    disk = stop(broker)
    older = disk.copied(f"/c/t-{index}")
    broker.start()
    assert produce(broker, index) == 0
    stop(broker)
    disk.put_back(f"/data/t-{index}", disk.copied(f"/c/t-{index}"))
    disk.put_back(f"/b/t-{index}", older)
    write_move(disk, f"/data/t-{index}", target=ids["/b"])
    write_move(disk, f"/b/t-{index}", source=ids["/data"])
    broker.start()
    assert served(broker, index) is None
    told = {trouble["path"]: trouble["reason"] for trouble in troubles(broker)}
    assert set(told) == {f"{path}/t-{index}" for path in ("/data", "/b", "/c")}
    assert f"(/data/t-{index}, /b/t-{index})" in told[f"/c/t-{index}"]


def test_new_replicas_are_made_though_the_directory_of_one_in_doubt_has_failed() -> None:
    cluster, victim = SimCluster(3, min_insync_replicas="1", more_directories=("/b",)), 2
    create(cluster, partitions=2, replicas=2)
    cluster.loop.run_for(20_000)
    topic = cluster.node(1).metadata.topic("t")
    assert topic is not None
    state = next(one for one in topic.partitions if victim in one.replicas)
    (other,) = (one for one in state.replicas if one != victim)
    produce_to_leader(cluster, state.partition)
    cluster.loop.run_for(20_000)
    cluster.kill(victim)
    cluster.loop.run_for(50)
    cluster.kill(other)
    disk, name = cluster.machines[victim].disk, f"t-{state.partition}"
    (held,) = (f"{path}/{name}" for path in BOTH if disk.exists(f"{path}/{name}"))
    (free,) = (f"{path}/{name}" for path in BOTH if not disk.exists(f"{path}/{name}"))
    disk.put_back(free, disk.copied(held))
    cluster.start(victim)
    cluster.loop.run_for(3000)
    replicas = cluster.node(victim).replicas
    disk.broken["/b"] = None
    cluster.until(lambda: list(replicas.directories.failed) == ["/b"], 60_000)
    cluster.start(other)
    create(cluster, name="new", partitions=6, replicas=3)
    cluster.until(lambda: all(("new", index) in replicas.by_name for index in range(6)), 60_000)
    cluster.until(lambda: ("t", state.partition) in replicas.by_name, 60_000)
    assert len([folder for folder in stray_folders(disk, "/data") if f"/{name}." in folder]) == 1
