"""Replicas that a start could not open because the disk was full are opened once there is room."""

from __future__ import annotations

import errno
import logging

import pytest
from sim_broker import SimBroker
from test_log_directories import create, metric, produce
from test_unreadable import restart, troubles

from ottla.kernel.errors import ErrorCode
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.metadata.state import PartitionState
from ottla.sim.disk import SimDisk

SEGMENT = "/data/t-0/00000000000000000000.log"
ALL = 1 << 62
LONG_MS = 60_000


@pytest.fixture
def broker() -> SimBroker:
    """Two partitions in one directory, with two records each; the checkpoints are written."""
    broker = SimBroker()
    create(broker)
    assert [produce(broker, index) for index in (0, 1, 0, 1)] == [0, 0, 0, 0]
    broker.loop.run_for(LONG_MS)
    return broker


def fill(disk: SimDisk) -> None:
    disk.capacity_bytes = disk.used_bytes()


def without_room(broker: SimBroker) -> None:
    """Kill the broker, and start it on a full disk."""
    restart(broker, fill, clean=False)
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert state_of(broker).offline == (broker.here.node.broker,)


def state_of(broker: SimBroker) -> PartitionState:
    topic = broker.here.node.metadata.topic("t")
    assert topic is not None
    return topic.partitions[0]


def make_room(broker: SimBroker) -> None:
    broker.machine.disk.capacity_bytes = ALL
    broker.loop.run_for(LONG_MS)


def test_replicas_are_served_once_there_is_room(broker: SimBroker, caplog: pytest.LogCaptureFixture) -> None:
    without_room(broker)
    broker.loop.run_for(LONG_MS)
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert metric(broker, "ottla_replica_trouble") == 2
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        make_room(broker)
    assert [record.getMessage() for record in caplog.records] == [
        f"t-{index} can be opened, as there is room again: it ends at offset 2" for index in (0, 1)
    ]
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 3
    assert state_of(broker).offline == ()
    assert troubles(broker) == []
    assert metric(broker, "kafka_server_replicamanager_offlinereplicacount") == 0


def test_the_next_stop_is_a_clean_one(broker: SimBroker) -> None:
    without_room(broker)
    make_room(broker)
    broker.restart(clean=True)
    assert [directory.clean for directory in broker.here.node.replicas.directories.online] == [True]
    assert produce(broker, 0) == 0


def test_one_for_which_the_room_is_not_enough_is_tried_again(broker: SimBroker) -> None:
    """A quota may be used up although the disk has room."""
    without_room(broker)
    for _ in range(3):
        broker.machine.disk.fail("write", errno.EDQUOT, where="/data/t-0/")
    make_room(broker)
    assert broker.machine.disk.to_fail == 0
    assert produce(broker, 0) == 0
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 3


def test_too_few_open_files_are_no_reason_to_stop(broker: SimBroker) -> None:
    without_room(broker)
    broker.machine.disk.fail("create", errno.EMFILE, where="/data/t-0/")
    make_room(broker)
    assert broker.machine.disk.to_fail == 0
    assert broker.here.fatal is None
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]


def test_one_that_is_damaged_as_well_refuses_what_is_damaged(broker: SimBroker) -> None:
    without_room(broker)
    file = broker.machine.disk.open(SEGMENT)
    file.write_at(file.size() - 5, [b"\xff\xff"])
    file.release()
    make_room(broker)
    assert produce(broker, 0) == 0
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 3, "no offset is given again"
    (trouble,) = troubles(broker)
    assert trouble["reason"] == "damaged: offsets 1 to 1 are refused"


def test_one_in_an_older_copy_of_its_directory_stays_offline(
    broker: SimBroker, caplog: pytest.LogCaptureFixture
) -> None:
    disk = broker.machine.disk
    older = disk.copied("/data")
    broker.restart(clean=False)

    def put_back(disk: SimDisk) -> None:
        disk.put_back("/data", older)
        fill(disk)

    restart(broker, put_back, clean=False)
    with caplog.at_level(logging.WARNING):
        make_room(broker)
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert len([record for record in caplog.records if "stays offline" in record.getMessage()]) == 2
    assert {trouble["reason"] for trouble in troubles(broker)} == {
        "its log directory is not the one that the cluster knows, or an older copy; the next start tells the cluster"
    }
    assert state_of(broker).offline == (broker.here.node.broker,)


def test_one_whose_files_cannot_be_read_stays_offline_alone(broker: SimBroker) -> None:
    without_room(broker)
    for _ in range(9):
        broker.machine.disk.fail("read", errno.EIO, where=SEGMENT)
    make_room(broker)
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert broker.here.fatal is None
    (trouble,) = troubles(broker)
    assert "simulated failure of read" in trouble["reason"]


def test_a_failed_sync_costs_the_directory(broker: SimBroker) -> None:
    """It may have dropped bytes of any file (rule B3)."""
    without_room(broker)
    broker.machine.disk.fail("sync", errno.EIO, where="/data/t-0/")
    make_room(broker)
    assert broker.here.fatal is not None


def test_a_deleted_topic_is_not_opened(broker: SimBroker) -> None:
    without_room(broker)
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), most=6)
    make_room(broker)
    assert broker.here.node.replicas.by_name == {}
    create(broker)
    broker.loop.run_for(1000)
    assert produce(broker, 0) == 0
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 1


def test_a_stop_ends_the_waiting(broker: SimBroker) -> None:
    without_room(broker)
    node = broker.here.node
    broker.here.stop(clean=True).result()
    broker.machine.disk.capacity_bytes = ALL
    broker.loop.run_for(LONG_MS)
    assert node.replicas.directories.recovered == {}
