"""Machines that are put back in time: a broker notices while it runs, and older copies of one run lead nothing."""

from __future__ import annotations

import logging

import pytest
from one_topic import BY_NAME, create, produce
from plain_requests import a_produce
from sim_broker import SimBroker
from sim_cluster import SimCluster

from ottla.broker.control.ages import EVERY_MS
from ottla.kernel.ids import NO_LEADER
from ottla.sim.disk_nodes import DirectoryNode
from ottla.storage.directory.directory import LogDirectory

OLDER = "restored from a snapshot of that run"


def directory(cluster: SimCluster, number: int) -> LogDirectory:
    (found,) = cluster.node(number).replicas.directories.online
    return found


def records(cluster: SimCluster, number: int) -> int:
    return cluster.node(number).replicas.by_name["t", 0].log.end_offset


def partition(cluster: SimCluster, number: int):
    return cluster.node(number).metadata.topic("t").partitions[0]


def a_written_cluster() -> SimCluster:
    """Three brokers with two records, on disk and told to the store."""
    cluster = SimCluster(3)
    create(cluster, 1, 2, 3, min_insync_replicas="2")
    for _ in range(2):
        produce(cluster, 1, acks=-1)
    cluster.loop.run_for(3 * EVERY_MS)
    return cluster


def two_of_three_put_back(cluster: SimCluster) -> None:
    """Brokers 1 and 2 come back from snapshots of this run, first, and broker 3 as it was."""
    copies = {number: cluster.machines[number].disk.copied("/data") for number in (1, 2)}
    for _ in range(3):
        produce(cluster, 1, acks=-1)
    cluster.loop.run_for(3 * EVERY_MS)
    for number in (1, 2, 3):
        cluster.kill(number)
    for number, copy in copies.items():
        cluster.machines[number].disk.put_back("/data", copy)


def test_two_of_three_machines_that_are_put_back_lead_nothing_before_the_third_is_there(caplog):
    cluster = a_written_cluster()
    two_of_three_put_back(cluster)
    with caplog.at_level(logging.WARNING, "ottla.incarnations"):
        cluster.start(1)
        cluster.start(2)
    cluster.loop.run_for(5000)
    assert partition(cluster, 1).leader == NO_LEADER
    assert sum(OLDER in line for line in caplog.messages) == 2
    cluster.start(3)
    cluster.until(lambda: len(partition(cluster, 3).in_sync) == 3, 60_000)
    assert [records(cluster, number) for number in (1, 2, 3)] == [5, 5, 5]


def test_without_the_witness_two_older_copies_would_have_led_and_lost_records():
    """The scene itself is a loss: it is the ages alone that keep it from happening."""
    cluster = a_written_cluster()
    two_of_three_put_back(cluster)
    cluster.store.ages.clear()
    cluster.start(1)
    cluster.start(2)
    cluster.until(lambda: partition(cluster, 1).leader != NO_LEADER)
    assert records(cluster, 1) == records(cluster, 2) == 2


def test_if_all_machines_are_put_back_an_administrator_decides(caplog):
    cluster = a_written_cluster()
    copies = {number: cluster.machines[number].disk.copied("/data") for number in (1, 2, 3)}
    produce(cluster, 1, acks=-1)
    cluster.loop.run_for(3 * EVERY_MS)
    newest = cluster.machines[3].disk.copied("/data")
    for number, copy in copies.items():
        cluster.kill(number)
        cluster.machines[number].disk.put_back("/data", copy)
    with caplog.at_level(logging.WARNING, "ottla.incarnations"):
        for number in (1, 2, 3):
            cluster.start(number)
    assert partition(cluster, 1).leader == NO_LEADER
    assert "wait for an administrator" in caplog.text
    cluster.kill(3)  # the newest directory, put back after all, ends the wait
    cluster.machines[3].disk.put_back("/data", newest)
    cluster.start(3)
    cluster.until(lambda: len(partition(cluster, 3).in_sync) == 3, 60_000)
    assert [records(cluster, number) for number in (1, 2, 3)] == [3, 3, 3]


def test_a_broker_whose_memory_went_back_stops_and_comes_back_as_an_older_copy(caplog):
    """A snapshot of the machine restores the process and its disk, and not the store on other machines."""
    cluster = a_written_cluster()
    machine, remembered = cluster.machines[1], directory(cluster, 1).age.on_disk
    disk = machine.disk.copied("/data")
    for _ in range(3):
        produce(cluster, 1, acks=-1)
        cluster.loop.run_for(2 * EVERY_MS)
    assert directory(cluster, 1).age.on_disk > remembered
    directory(cluster, 1).age.on_disk = remembered
    with caplog.at_level(logging.WARNING):
        cluster.until(lambda: machine.current.fatal is not None, 3 * EVERY_MS)
        assert "put back to an earlier state while the broker ran" in machine.current.fatal
        cluster.kill(1)
        machine.disk.put_back("/data", disk)
        cluster.start(1)
    assert OLDER in caplog.text
    cluster.until(lambda: len(partition(cluster, 1).in_sync) == 3, 60_000)
    assert [records(cluster, number) for number in (1, 2, 3)] == [5, 5, 5]


@pytest.mark.parametrize("clean", [True, False])
def test_a_directory_as_it_was_left_is_never_older(caplog, clean):
    cluster = a_written_cluster()
    machine = cluster.machines[2]
    with caplog.at_level(logging.WARNING, "ottla.incarnations"):
        for _ in range(6):
            cluster.until(lambda: partition(cluster, 1).leader == 1 and len(partition(cluster, 1).in_sync) == 3, 60_000)
            produce(cluster, 1, acks=-1)
            cluster.loop.run_for(700)
            if clean:
                cluster.end_of(machine.current.stop(clean=True))
            cluster.kill(2)
            if not clean:
                machine.disk.lose_unsynced()
            cluster.start(2)
    assert OLDER not in caplog.text


def test_a_directory_that_comes_back_after_its_successor_grows_older_than_the_store_knows_it():
    """Its records are fetched anew, as the cluster had another directory in its place; the broker goes on with it."""
    cluster = a_written_cluster()
    machine = cluster.machines[2]
    copy, was = machine.disk.copied("/data"), directory(cluster, 2).directory_id
    for _ in range(3):
        produce(cluster, 1, acks=-1)
        cluster.loop.run_for(2 * EVERY_MS)
    for node in (DirectoryNode(), copy):
        cluster.kill(2)
        machine.disk.put_back("/data", node)
        cluster.start(2)
        cluster.until(lambda: len(partition(cluster, 1).in_sync) == 3, 60_000)
        produce(cluster, 1, acks=-1)
    cluster.loop.run_for(3 * EVERY_MS)
    assert machine.current.fatal is None
    assert directory(cluster, 2).directory_id == was and directory(cluster, 2).age.on_disk == cluster.store.ages[was]
    assert [records(cluster, number) for number in (1, 2, 3)] == [7, 7, 7]


def test_the_age_stands_still_while_nothing_is_written():
    cluster = a_written_cluster()
    held = directory(cluster, 2)
    before = held.age.on_disk
    cluster.loop.run_for(20 * EVERY_MS)
    assert held.age.on_disk == before == cluster.store.ages[held.directory_id]


def test_a_broker_that_is_alone_with_its_store_has_no_witness_and_notes_nothing():
    """A copy of its whole directory, whichever file was copied first, starts as it did before there were ages."""
    place = SimBroker()
    place.create_topic()
    place.ask(a_produce(), most=BY_NAME)
    place.loop.run_for(3 * EVERY_MS)
    assert place.store.ages == {}


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_lost_or_damaged_age_is_said_and_makes_no_directory_older(caplog, harm):
    cluster = a_written_cluster()
    cluster.kill(2)
    if harm == "missing":
        cluster.machines[2].disk.remove("/data/age")
    else:
        cluster.machines[2].disk.flip_bit("/data/age", 14, 0)
    with caplog.at_level(logging.WARNING, "ottla.incarnations"):
        cluster.start(2)
    assert "could not be told from the directory itself" in caplog.text
    assert OLDER not in caplog.text
