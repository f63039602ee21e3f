"""Replicas that a start could not open, as the disk was full or a read failed, are opened once they can be."""

from __future__ import annotations

import errno
import logging
from functools import partial

import pytest
from harmed_start import restart, troubles
from moving import alter, rounds, values
from one_topic import state
from sim_broker import SimBroker
from sim_cluster import SimCluster
from two_directories import MORE, a_produce, create, metric, place_of, produce

from ottla.broker.replicas.doubtful_replicas import by_topic
from ottla.cluster.broker_commands import TakeOffline
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.metadata.partition_state import PartitionState
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
        f"t-{index} can be opened now: it ends at offset 2" for index in (0, 1)
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
    assert broker.here.node.replicas.by_name.keys() == {("t", 1)}, "it keeps no other replica waiting"
    broker.loop.run_for(2 * LONG_MS)
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
        "its log directory is not the one that the cluster knows, or an older copy"
    }
    assert state_of(broker).offline == (broker.here.node.broker,)


def test_one_whose_files_cannot_be_read_stays_offline_alone(
    broker: SimBroker, caplog: pytest.LogCaptureFixture
) -> None:
    without_room(broker)
    for _ in range(50):
        broker.machine.disk.fail("read", errno.EIO, where=SEGMENT)
    make_room(broker)
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    with caplog.at_level(logging.WARNING):
        broker.loop.run_for(20 * LONG_MS)
    assert [message for message in caplog.messages if "t-0 stays offline until the next start" in message]
    tried = broker.machine.disk.to_fail
    broker.loop.run_for(20 * LONG_MS)
    assert 0 < broker.machine.disk.to_fail == tried, "nothing is read any more"
    assert broker.here.fatal is None
    (trouble,) = troubles(broker)
    assert "simulated failure of read" in trouble["reason"]


def test_one_that_a_read_error_kept_closed_is_served_once_it_can_be_read(broker: SimBroker) -> None:
    """Worlds 310095 and 310224: the only replica of a partition stayed offline until the next start."""
    restart(broker, lambda disk: disk.fail("read", errno.EIO, where=SEGMENT), clean=False)
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    broker.loop.run_for(LONG_MS)
    assert produce(broker, 0) == 0 and troubles(broker) == []
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 3


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


def without_power(broker: SimBroker) -> None:
    """Records that were acknowledged from the page cache are gone with the power, and checkpoints tell of them."""
    create(broker, write_caching="true")
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    broker.loop.run_for(LONG_MS)
    broker.machine.vanish()
    broker.machine.disk.lose_unsynced()


def test_one_that_may_have_lost_records_with_the_power_goes_on_without_them() -> None:
    """Seed 211005 of three brokers."""
    broker = SimBroker()
    without_power(broker)
    fill(broker.machine.disk)
    broker.start()
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    make_room(broker)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert troubles(broker) == []


def test_what_went_with_the_power_is_no_damage_after_a_kill_that_came_before_it_was_opened() -> None:
    """The note that the page cache was kept waits until its checkpoints are lowered."""
    broker = SimBroker()
    without_power(broker)
    broker.machine.disk.fail("write", errno.ENOSPC, where="/data/t-0/")
    broker.start()
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    broker.loop.run_for(2000)
    restart(broker, nothing, clean=False)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert troubles(broker) == []
    broker.loop.run_for(LONG_MS)
    restart(broker, nothing, clean=False)
    assert [directory.cache_kept for directory in broker.here.node.replicas.directories.online] == [True]
    assert [broker.here.node.replicas.by_name["t", index].log.end_offset for index in (0, 1)] == [1, 2]


def nothing(_: SimDisk) -> None:
    """No harm is done to the disk."""


def test_one_that_an_unclean_election_makes_the_leader_leads() -> None:
    cluster = SimCluster(3, min_insync_replicas="2")
    create(cluster, partitions=1, replicas=2)
    cluster.loop.run_for(2000)

    other, victim = state(cluster).replicas
    third = BrokerId(6 - other - victim)
    assert cluster.ask(other, a_produce(0), most=9).responses[0].partition_responses[0].error_code == 0
    cluster.loop.run_for(6000)
    for each in (other, victim):
        cluster.kill(each)
        cluster.loop.run_for(2000)
    disk = cluster.machines[victim].disk
    fill(disk)
    cluster.start(victim)
    cluster.loop.run_for(2000)
    disk.capacity_bytes = ALL
    partitions = [TopicPartitions(topic="t", partitions=[0])]
    cluster.ask(third, ElectLeadersRequest(election_type=1, topic_partitions=partitions, timeout_ms=2000))
    cluster.until(lambda: ("t", 0) in cluster.node(victim).replicas.by_name, LONG_MS)
    assert state(cluster, third).leader == victim
    assert cluster.node(victim).replicas.by_name["t", 0].log.end_offset == 1


# --- several log directories ---


def with_a_broken_swap() -> SimBroker:
    """A replica with three records was sent from /b to /c. /b failed in the swap, and four more records went to /c. The
    broker was killed then."""
    broker = SimBroker(more_directories=MORE)
    create(broker)
    assert rounds(broker, 3) == 3
    disk = broker.machine.disk
    disk.lie_in_wait("-future", 2, partial(disk.broken.update, {"/b": None}))
    alter(broker, "/c", 1)
    assert rounds(broker, 4) == 4
    assert list(broker.here.node.replicas.directories.failed) == ["/b"]
    broker.loop.run_for(LONG_MS)
    broker.machine.vanish()
    disk.forget_faults()
    return broker


def test_the_older_half_of_a_swap_is_not_served_where_the_newer_one_cannot_be_opened() -> None:
    broker = with_a_broken_swap()
    broker.machine.disk.fail("read", errno.EIO, where="/c/meta.properties")
    fill(broker.machine.disk)
    broker.start()
    make_room(broker)
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    (reason,) = (trouble["reason"] for trouble in troubles(broker) if trouble["partition"] == 1)
    assert reason == "another log directory could not be opened, and may hold a newer copy"
    broker.restart(clean=True)
    assert place_of(broker, 1) == "/c"
    assert values(broker) == 7


def test_one_that_was_being_moved_is_left_to_the_next_start() -> None:
    broker = with_a_broken_swap()
    broker.machine.disk.replace("/c")
    fill(broker.machine.disk)
    broker.start()
    make_room(broker)
    assert produce(broker, 1) != ErrorCode.NONE, "what was newer was on the disk that is gone"


def test_one_half_of_a_swap_that_lacks_room_keeps_the_other_from_being_served() -> None:
    broker = with_a_broken_swap()
    assert broker.machine.disk.exists("/c/t-1") and broker.machine.disk.exists("/b/t-1")
    broker.machine.disk.fail("write", errno.ENOSPC, where="/c/t-1/")
    broker.start()
    broker.loop.run_for(LONG_MS)
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert len([trouble for trouble in troubles(broker) if trouble["partition"] == 1]) == 2
    broker.restart(clean=False)
    assert place_of(broker, 1) == "/c"
    assert values(broker) == 7


def test_one_whose_directory_fails_before_it_is_taken_in_is_offline() -> None:
    broker = SimBroker(more_directories=("/b",))
    create(broker)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    without_room(broker)
    replicas = broker.here.node.replicas
    (key,) = (key for key, found in replicas.directories.unreadable.by_key.items() if found[0].directory.path == "/b")
    take_in = replicas.reopening._on_open

    def fail_first(opened: tuple[bytes, int], short: bool) -> None:
        if opened == key:
            replicas._pending._working = True  # as while a deleted log waits for room
        take_in(opened, short)
        if opened == key:
            assert key in replicas.directories.recovered
            broker.here.node.around.disk_failed(OSError(errno.EIO, "gone", "/b/t-1"))

    replicas.reopening._on_open = fail_first
    make_room(broker)
    assert key in replicas.directories.offline and key not in replicas.directories.recovered
    topic = broker.here.node.metadata.topic("t")
    assert topic is not None
    assert [state.offline for state in topic.partitions if state.partition == key[1]] == [(broker.here.node.broker,)]


# --- what the cluster is told ---


def test_a_report_that_comes_late_does_not_stay(broker: SimBroker) -> None:
    """A report whose outcome was not known in time may be applied after the replica was opened."""
    without_room(broker)
    make_room(broker)
    (key,) = (key for key in broker.here.node.replicas.by_id if key[1] == 0)
    broker.here.node.around.follow.submit(TakeOffline(by_topic([key])))
    broker.loop.run_for(LONG_MS)
    assert state_of(broker).offline == ()
    assert produce(broker, 0) == 0
