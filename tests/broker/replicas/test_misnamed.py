"""A folder is served only under the name of the partition that it holds; none of its records is deleted."""

from __future__ import annotations

import logging

import pytest
from harmed_start import is_in_sync, restart, troubles, with_one_killed
from sim_broker import SimBroker
from two_directories import a_produce, create, produce, produce_to_leader

from ottla.kernel.errors import ErrorCode
from ottla.sim.disk import SimDisk
from ottla.storage.directory.strays import stray_folders, strays
from ottla.storage.log import Log

FIRST = "00000000000000000000.log"


@pytest.fixture
def broker() -> SimBroker:
    """Partition 0 of a topic "t" with two records, 1 with one, and one partition of a topic "pay" with one."""
    broker = SimBroker(more_directories=("/b",))
    create(broker)
    create(broker, name="pay", partitions=1)
    assert [produce(broker, index) for index in (0, 0, 1)] == [0, 0, 0]
    assert broker.ask(a_produce(0, "pay"), most=9).responses[0].partition_responses[0].error_code == 0
    return broker


def log_of(broker: SimBroker, index: int = 0, name: str = "t") -> Log | None:
    partition = broker.here.node.replicas.by_name.get((name, index))
    return None if partition is None else partition.log


def end_of(broker: SimBroker, index: int = 0, name: str = "t") -> int | None:
    log = log_of(broker, index, name)
    return None if log is None else log.end_offset


def folder_of(broker: SimBroker, index: int = 0, name: str = "t") -> str:
    log = log_of(broker, index, name)
    assert log is not None
    return log.directory


def swap(disk: SimDisk, one: str, other: str) -> None:
    disk.rename(one, "/data/between")
    disk.rename(other, one)
    disk.rename("/data/between", other)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("directory", ["/data", "/b"])
@pytest.mark.parametrize("name", ["t_backup-0", "a-0", "t-7", "pay-1"])
def test_a_copy_beside_the_replica_is_set_aside_and_no_offset_is_given_twice(
    broker: SimBroker, directory: str, name: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broker.loop.run_for(60_000)
    copy = broker.machine.disk.copied(folder_of(broker))
    assert produce(broker, 0) == 0
    path = f"{directory}/{name}"
    with caplog.at_level(logging.WARNING):
        restart(broker, lambda disk: disk.put_back(path, copy), clean=clean)
    assert end_of(broker) == 3 and folder_of(broker).endswith("/t-0")
    assert produce(broker, 0) == 0 and end_of(broker) == 4
    assert (end_of(broker, 1), end_of(broker, 0, "pay")) == (1, 1)
    (line,) = [message for message in caplog.messages if path in message]
    assert "is set aside, with all its records" in line and "holds t-0, and its name says another" in line
    broker.loop.run_for(60_000)
    (stray,) = strays(broker.machine.disk, directory)
    assert (stray.topic, f"-{stray.partition}", stray.end_offset) == (name[:-2], name[-2:], 2)
    broker.restart(clean=True)
    assert end_of(broker) == 4


@pytest.mark.parametrize("clean", [True, False])
def test_a_replica_under_another_name_is_offline_until_it_has_its_name_again(broker: SimBroker, clean: bool) -> None:
    broker.loop.run_for(60_000)
    folder = folder_of(broker)
    restart(broker, lambda disk: disk.rename(folder, f"{folder[:-2]}_old-0"), clean=clean)
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    (trouble,) = troubles(broker)
    assert (trouble["topic"], trouble["partition"], trouble["path"]) == ("t", 0, f"{folder[:-2]}_old-0")
    assert "rename it to t-0 and start again; its offsets 0 to 1 are refused" in trouble["reason"]
    broker.loop.run_for(60_000)
    restart(broker, lambda disk: disk.rename(f"{folder[:-2]}_old-0", folder), clean=clean)
    assert produce(broker, 0) == 0 and end_of(broker) == 3
    assert troubles(broker) == []


def test_swapped_folders_serve_no_records_of_each_other(broker: SimBroker, caplog: pytest.LogCaptureFixture) -> None:
    one, other = folder_of(broker, 0), folder_of(broker, 1)
    with caplog.at_level(logging.WARNING):
        restart(broker, lambda disk: swap(disk, one, other))
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert end_of(broker, 0, "pay") == 1
    told = {(each["partition"], each["path"]): each["reason"] for each in troubles(broker)}
    assert set(told) == {(0, one), (1, other)} or set(told) == {(0, other), (1, one)}
    assert all("partition.metadata says that it holds t-" in reason for reason in told.values())
    assert len([message for message in caplog.messages if "says that it holds" in message]) == 2
    broker.loop.run_for(60_000)
    restart(broker, lambda disk: swap(disk, one, other))
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert (end_of(broker, 0), end_of(broker, 1)) == (3, 2)


def test_a_copy_of_another_topic_in_the_place_of_the_only_replica_is_not_served(broker: SimBroker) -> None:
    place, copy = folder_of(broker), broker.machine.disk.copied(folder_of(broker, 0, "pay"))
    restart(broker, lambda disk: disk.put_back(place, copy))
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert (end_of(broker), end_of(broker, 0, "pay")) == (None, 1)
    (trouble,) = troubles(broker)
    assert (trouble["topic"], trouble["partition"], trouble["path"]) == ("t", 0, place)
    assert "says that it holds pay-0" in trouble["reason"]
    broker.loop.run_for(60_000)
    assert broker.machine.disk.file_size(f"{place}/{FIRST}") > 0


def test_the_identity_of_another_topic_is_not_corrected_without_a_word(broker: SimBroker) -> None:
    place, other = folder_of(broker), folder_of(broker, 0, "pay")
    bodies = {name: broker.machine.disk.read(f"{place}/{name}") for name in broker.machine.disk.list(place)}

    def harm(disk: SimDisk) -> None:
        for name in ("partition.metadata", "partition.metadata.copy"):
            file = disk.open(f"{place}/{name}")
            file.truncate(0)
            file.write_at(0, [disk.read(f"{other}/{name}")])
            file.sync()
            file.release()

    restart(broker, harm)
    assert (end_of(broker), end_of(broker, 0, "pay")) == (None, 1)
    assert "says that it holds pay-0" in troubles(broker)[0]["reason"]
    broker.loop.run_for(60_000)
    disk = broker.machine.disk
    assert disk.read(f"{place}/{FIRST}") == bodies[FIRST]
    assert disk.read(f"{place}/partition.metadata") == disk.read(f"{other}/partition.metadata")


@pytest.mark.parametrize("harm", ["swapped", "replaced by another topic", "renamed"])
def test_where_other_brokers_hold_the_partition_it_is_fetched_anew(harm: str, caplog: pytest.LogCaptureFixture) -> None:
    victim = 2
    cluster = with_one_killed(victim)  # t-0 has three records
    cluster.start(victim)
    create(cluster, name="pay", partitions=1, replicas=3)
    cluster.until(lambda: all(("pay", 0) in cluster.node(each).replicas.by_name for each in (1, 2, 3)))
    replicas = cluster.node(victim).replicas.by_name
    produce_to_leader(cluster, 1)
    cluster.until(lambda: replicas["t", 1].log.end_offset == 1 and is_in_sync(cluster, victim), 60_000)
    cluster.loop.run_for(20_000)
    cluster.kill(victim)
    disk = cluster.machines[victim].disk
    if harm == "swapped":
        swap(disk, "/data/t-0", "/data/t-1")
    elif harm == "renamed":
        disk.rename("/data/t-0", "/data/t_old-0")
    else:
        disk.put_back("/data/t-0", disk.copied("/data/pay-0"))
    with caplog.at_level(logging.WARNING):
        cluster.start(victim)
    replicas = cluster.node(victim).replicas.by_name

    def whole() -> bool:
        ends = [replicas[key].log.end_offset for key in (("t", 0), ("t", 1)) if key in replicas]
        return ends == [3, 1] and is_in_sync(cluster, victim)

    cluster.until(whole, 60_000)
    assert len(stray_folders(disk, "/data")) == (2 if harm == "swapped" else 1)
    assert replicas["t", 0].log.directory == "/data/t-0"
    for number in (1, 3):
        node = cluster.node(number)
        assert [node.replicas.by_name["t", index].log.end_offset for index in (0, 1)] == [3, 1]
