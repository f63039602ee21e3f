"""A broker with several log directories: where it puts replicas, and what it finds in them at a start."""

from __future__ import annotations

import errno

import pytest
from sim_broker import SimBroker
from sim_cluster import SimCluster
from two_directories import (
    BOTH,
    MORE,
    a_produce,
    break_second,
    create,
    described,
    held,
    leader_of,
    place_of,
    produce,
    produce_to_leader,
    start_in_vain,
    two_directories,
)

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_LEADER
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.storage.checkpoint import SYNC_FAILED


@pytest.fixture
def broker() -> SimBroker:
    return two_directories()


# --- where replicas go ---


def test_a_new_replica_goes_to_the_directory_with_the_fewest():
    broker = SimBroker(more_directories=MORE)
    create(broker, "t", 7)
    places = [place_of(broker, index) for index in range(7)]
    assert sorted(places.count(path) for path in ("/data", *MORE)) == [2, 2, 3]
    assert all(broker.machine.disk.exists(f"{path}/t-{index}/partition.metadata") for index, path in enumerate(places))


def test_each_directory_has_an_identity_of_its_own():
    broker = SimBroker(more_directories=MORE)
    bodies = {broker.machine.disk.read(f"{path}/meta.properties") for path in ("/data", *MORE)}
    assert len(bodies) == 3
    assert all(b"node.id=1" in body for body in bodies)
    me = broker.here.node.metadata.brokers[broker.machine.broker_id]
    assert len(set(me.directories)) == 3


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_finds_every_replica_where_it_was(broker: SimBroker, clean: bool):
    broker.restart(clean=clean)
    assert (place_of(broker, 0), place_of(broker, 1)) == BOTH
    assert [broker.here.node.replicas.by_name["t", index].log.end_offset for index in (0, 1)] == [1, 1]
    assert [broker.machine.disk.exists(f"{path}/recovery-point-offset-checkpoint") for path in BOTH] == [clean] * 2
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]


def test_checkpoints_of_all_directories_are_written_though_one_is_full(broker: SimBroker):
    replicas = broker.here.node.replicas
    broker.machine.disk.fail("write", errno.ENOSPC, where="/data/replication-offset-checkpoint")
    with pytest.raises(OSError):
        replicas.upkeep.checkpoint_high_watermarks()
    assert b"t 1 1" in broker.machine.disk.read("/b/replication-offset-checkpoint")


def test_a_deleted_topic_goes_from_every_directory(broker: SimBroker):
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), most=6)
    broker.loop.run_for(2000)
    assert not [name for path in BOTH for name in broker.machine.disk.list(path) if name.startswith("t-")]
    create(broker)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]


def test_retention_reaches_every_directory(broker: SimBroker):
    for index in (0, 1):
        broker.here.node.replicas.by_name["t", index].log.delete_records_before(1)
    broker.here.node.replicas.upkeep.apply_retention()
    for path, index in zip(BOTH, (0, 1), strict=True):
        assert f"t {index} 1".encode() in broker.machine.disk.read(f"{path}/log-start-offset-checkpoint")


# --- DescribeLogDirs ---


def test_each_directory_is_described_with_what_it_holds(broker: SimBroker):
    found = described(broker)
    assert {path: held(result) for path, result in found.items()} == {"/data": [("t", 0)], "/b": [("t", 1)]}
    assert all(one.partition_size > 0 for result in found.values() for one in result.topics[0].partitions)
    assert all(result.error_code == 0 and result.usable_bytes > 0 for result in found.values())


def test_a_directory_that_holds_nothing_of_what_was_asked_for_is_described_too(broker: SimBroker):
    found = described(broker, t=[1])
    assert {path: held(result) for path, result in found.items()} == {"/data": [], "/b": [("t", 1)]}


def fill(broker: SimBroker, *paths: str) -> None:
    """Let writes there find no room from now on."""
    disk = broker.machine.disk
    before = disk.operate

    def operate(operation: str, path: str) -> None:
        if operation == "write" and path.startswith(tuple(f"{full}/" for full in paths)):
            raise OSError(errno.ENOSPC, "no room", path)
        before(operation, path)

    disk.operate = operate  # type: ignore[method-assign]


def test_new_replicas_are_made_where_there_is_room_though_a_full_directory_has_fewer(broker: SimBroker):
    fill(broker, "/b")
    for name in ("x", "y"):
        create(broker, name, 4)
        broker.loop.run_for(2000)
        assert {place_of(broker, index, name) for index in range(4)} == {"/data"}
        answers = [broker.ask(a_produce(index, name), most=9).responses[0] for index in range(4)]
        assert [answer.partition_responses[0].error_code for answer in answers] == [0] * 4
    assert [name for name in broker.machine.disk.list("/b") if name[0] in "xy"] == []


def test_a_replica_that_waits_for_room_where_it_was_wanted_keeps_no_other_waiting(broker: SimBroker):
    broker.here.node.replicas.directories.wanted["x", 0] = "/b"
    fill(broker, "/b")
    create(broker, "x", 4)
    broker.loop.run_for(100)
    replicas = broker.here.node.replicas.by_name
    assert [("x", index) in replicas for index in range(4)] == [False, True, True, True]
    del broker.machine.disk.operate  # type: ignore[method-assign]
    broker.loop.run_for(2000)
    assert place_of(broker, 0, "x") == "/b"


@pytest.mark.parametrize("records", [0, 1])
def test_a_half_made_replica_that_the_failed_disk_kept_goes_at_the_next_start(records: int):
    broker = SimBroker(more_directories=("/b",))
    broker.machine.disk.fail("sync names", errno.EIO, where="/b/t-1")
    broker.machine.disk.fail("remove", errno.EIO, where="/b/t-1/0")
    create(broker)
    broker.loop.run_for(200)
    assert "t-1" in broker.machine.disk.list("/b")
    assert [produce(broker, 1) for _ in range(records)] == [0] * records
    broker.restart(clean=True)
    assert place_of(broker, 1) == "/data"
    assert broker.here.node.replicas.by_name["t", 1].log.end_offset == records
    assert produce(broker, 1) == 0
    broker.loop.run_for(2000)
    assert "t-1" not in broker.machine.disk.list("/b")


def test_of_a_replica_in_two_directories_the_one_with_records_stays_wherever_it_lies(broker: SimBroker):
    broker.here.stop(clean=True).result()
    broker.machine.vanish()
    disk = broker.machine.disk
    disk.make_directory("/data/t-1")
    disk.open("/data/t-1/00000000000000000000.log", create=True)
    body = disk.read("/b/t-1/partition.metadata")
    disk.open("/data/t-1/partition.metadata", create=True).write_at(0, [body])
    broker.start()
    assert place_of(broker, 1) == "/b"
    assert broker.here.node.replicas.by_name["t", 1].log.end_offset == 1
    assert produce(broker, 1) == 0


def test_a_topic_in_a_failed_directory_can_be_deleted(broker: SimBroker):
    break_second(broker)
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), most=6)
    create(broker)
    assert {place_of(broker, index) for index in (0, 1)} == {"/data"}
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    broker.restart(clean=True)  # what lies in /b is a stray now
    assert {place_of(broker, index) for index in (0, 1)} == {"/data"}
    assert described(broker)["/b"].error_code == 0


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_a_directory_that_works_again_after_a_restart_is_served_whole(broker: SimBroker, operation: str):
    broker.machine.disk.fail(operation, errno.EIO, where="/b/t-1")
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    broker.loop.run_for(200)
    broker.restart(clean=True)
    assert place_of(broker, 1) == "/b"
    assert broker.here.node.replicas.by_name["t", 1].log.end_offset >= 1
    assert produce(broker, 1) == 0
    topic = broker.here.node.metadata.topic("t")
    assert topic is not None
    assert [state.offline for state in topic.partitions] == [(), ()]


def test_the_others_are_still_marked_clean_when_the_broker_stops(broker: SimBroker):
    break_second(broker)
    broker.here.stop(clean=True).result()
    assert broker.machine.disk.exists("/data/.kafka_cleanshutdown")
    assert not broker.machine.disk.exists("/b/.kafka_cleanshutdown")


# --- one cannot be opened ---


def restart_without_second(broker: SimBroker) -> None:
    broker.here.stop(clean=True).result()
    broker.machine.vanish()
    broker.machine.disk.fail("read", errno.EIO, where="/b/meta.properties")
    broker.start()


def test_a_broker_starts_without_a_directory_that_cannot_be_opened(broker: SimBroker):
    restart_without_second(broker)
    assert produce(broker, 0) == 0
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert described(broker)["/b"].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.loop.run_for(5000)
    assert not broker.machine.disk.exists("/data/t-1")  # not made anew, empty


def test_a_failure_that_a_file_system_tells_of_once_lets_all_its_directories_write_again(broker: SimBroker):
    """The first one that asks is told, whichever's sync had failed."""
    for index in (0, 1):
        assert produce(broker, index) == ErrorCode.NONE
    broker.machine.vanish()
    broker.machine.disk.note_failed_sync("/data/t-0/log")
    broker.start()
    assert all(broker.machine.disk.exists(f"{path}/{SYNC_FAILED}") for path in BOTH)


def test_a_directory_whose_log_cannot_be_recovered_is_offline(broker: SimBroker):
    broker.machine.vanish()
    broker.machine.disk.fail("read", errno.EIO, where="/b/t-1/0000")
    broker.start()
    assert produce(broker, 0) == 0
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    broker.restart(clean=True)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]


def test_what_could_not_be_opened_is_whole_when_it_can_be(broker: SimBroker):
    restart_without_second(broker)
    broker.restart(clean=True)
    assert place_of(broker, 1) == "/b"
    assert broker.here.node.replicas.by_name["t", 1].log.end_offset == 1
    assert produce(broker, 1) == 0


def test_an_emptied_directory_does_not_lead(broker: SimBroker):
    """The disk was replaced or is not mounted: t-1's only replica is gone, and nobody has accepted the loss."""
    broker.here.stop(clean=True).result()
    broker.machine.vanish()
    broker.machine.disk.remove_tree("/b")
    broker.start()
    assert produce(broker, 0) == 0
    assert produce(broker, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    topics = [TopicPartitions(topic="t", partitions=[1])]
    broker.ask(ElectLeadersRequest(election_type=1, topic_partitions=topics, timeout_ms=1000))
    assert produce(broker, 1) == 0  # an administrator has accepted the loss


def test_what_need_not_last_is_not_waited_for_where_its_directory_was_emptied():
    broker = SimBroker(more_directories=("/b",))
    create(broker, write_caching="true")
    assert (place_of(broker, 1), produce(broker, 1)) == ("/b", 0)
    broker.here.stop(clean=True).result()
    broker.machine.vanish()
    broker.machine.disk.remove_tree("/b")
    broker.start()
    assert produce(broker, 1) == 0


def test_a_broker_whose_only_directories_cannot_be_opened_does_not_start(broker: SimBroker):
    broker.machine.vanish()
    broker.machine.disk.fail("read", errno.EIO, where="/data/meta.properties")
    with pytest.raises(OSError, match=r"meta\.properties"):
        start_in_vain(broker)


# --- among others ---


def replica(cluster: SimCluster, number: int, index: int) -> str:
    return cluster.node(number).replicas.by_name["t", index].log.directory


def test_others_lead_what_a_failed_directory_led_and_it_catches_up_when_it_is_back():
    cluster = SimCluster(3, more_directories=("/b",), min_insync_replicas="2")
    create(cluster, partitions=4, replicas=3)
    everywhere = [(number, index) for number in (1, 2, 3) for index in range(4)]
    cluster.until(lambda: all(("t", index) in cluster.node(each).replicas.by_name for each, index in everywhere))
    index = next(at for at in range(4) if replica(cluster, leader_of(cluster, at), at).startswith("/b/"))
    leader = leader_of(cluster, index)
    lost = [at for at in range(4) if replica(cluster, leader, at).startswith("/b/")]
    assert 0 < len(lost) < 4
    cluster.machines[leader].disk.fail("sync", errno.EIO, where="/b/t-")
    cluster.ask(leader, a_produce(index), most=9)
    cluster.until(lambda: all(leader_of(cluster, at) not in (leader, NO_LEADER) for at in lost))
    state = cluster.node(1).metadata.topic("t").partitions  # type: ignore[union-attr]
    assert all(leader in state[at].offline and leader not in state[at].in_sync for at in lost)
    assert all(leader in state[at].in_sync for at in range(4) if at not in lost)
    cluster.until(lambda: cluster.node(leader_of(cluster, index)).replicas.by_name["t", index].leader is not None)
    produce_to_leader(cluster, index)
    cluster.kill(leader)
    cluster.start(leader)
    other = next(number for number in (1, 2, 3) if number != leader)

    def all_in_sync() -> bool:
        topic = cluster.node(other).metadata.topic("t")
        return topic is not None and all(len(one.in_sync) == 3 and not one.offline for one in topic.partitions)

    cluster.until(all_in_sync, 60_000)
    end = cluster.node(leader_of(cluster, index)).replicas.by_name["t", index].log.end_offset
    assert cluster.node(leader).replicas.by_name["t", index].log.end_offset == end


def test_an_empty_replica_is_not_taken_for_one_that_may_lie_in_a_failed_directory():
    """Its creation began in /b, which failed, and left files; it was made in /c, which fails at the next start."""
    cluster = SimCluster(3, more_directories=("/b", "/c"), min_insync_replicas="2")
    disk = cluster.machines[1].disk
    disk.fail("sync names", errno.EIO, where="/b/t-")
    disk.fail("remove", errno.EIO, where="/b/t-")
    create(cluster, partitions=6, replicas=3)
    begun = [int(name[2:]) for name in disk.list("/b") if name.startswith("t-") and "-delete" not in name]
    cluster.loop.run_for(5000)
    index = next(index for index in begun if replica(cluster, 1, index).startswith("/c/"))
    answer = cluster.ask(leader_of(cluster, index), a_produce(index), most=9).responses[0].partition_responses[0]
    assert answer.error_code == 0
    cluster.loop.run_for(1000)
    for number in (1, 2, 3):
        cluster.machines[number].vanish()
    disk.forget_faults()
    disk.fail("read", errno.EIO, where="/c/meta.properties")
    for number in (1, 2, 3):
        cluster.start(number)
        cluster.loop.run_for(3000)
    assert leader_of(cluster, index) in (2, 3)
    assert [cluster.node(each).replicas.by_name["t", index].log.end_offset for each in (2, 3)] == [1, 1]
