"""AlterReplicaLogDirs moves a replica while it is served; no disk failure meanwhile loses acknowledged records."""

from __future__ import annotations

import errno
from functools import partial

import pytest
from moving import alter, rounds, slow_down, until_moved, values
from one_topic import state, until_placed
from sim_broker import SimBroker
from sim_cluster import SimCluster
from two_directories import MORE, create, described, held, place_of, produce, produce_to_leader

from ottla.kernel.errors import ErrorCode
from ottla.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

EVERY = ("/data", *MORE)


@pytest.fixture
def broker() -> SimBroker:
    """A broker with three directories; t-1 is in /b and has 50 records."""
    broker = SimBroker(more_directories=MORE)
    create(broker, partitions=2)
    assert place_of(broker, 1) == "/b"
    for _ in range(50):
        assert produce(broker, 1) == 0
    return broker


def folders(broker: SimBroker) -> dict[str, list[str]]:
    broker.loop.run_for(1000)  # files that were set aside are deleted in small steps
    return {path: [name for name in broker.machine.disk.list(path) if name.startswith("t-1")] for path in EVERY}


# --- a move ---


def test_a_replica_moves_and_is_served_in_its_new_place(broker: SimBroker):
    assert alter(broker, "/c", 1) == [0]
    until_moved(broker, "/c")
    assert produce(broker, 1) == 0
    assert values(broker) == 51
    assert folders(broker) == {"/data": [], "/b": [], "/c": ["t-1"]}
    broker.restart(clean=False)
    assert place_of(broker, 1) == "/c"
    assert values(broker) == 51


def test_the_leader_epoch_goes_on(broker: SimBroker):
    """A move does not change the leader, so no client is told to ask another broker."""
    before = broker.here.node.replicas.by_name["t", 1].leader_epoch
    version = broker.here.node.metadata.version
    assert alter(broker, "/c", 1) == [0]
    until_moved(broker, "/c")
    assert broker.here.node.replicas.by_name["t", 1].leader_epoch == before
    assert broker.here.node.metadata.version == version


def test_a_replica_on_its_way_is_described_in_both_directories(broker: SimBroker):
    slow_down(broker, 500)
    assert alter(broker, "/c", 1) == [0]
    broker.loop.run_for(1500)
    found = described(broker)
    (future,) = found["/c"].topics[0].partitions
    assert held(found["/b"]) == held(found["/c"]) == [("t", 1)]
    assert future.is_future_key
    assert 0 < future.offset_lag < 50
    assert 0 < future.partition_size < found["/b"].topics[0].partitions[0].partition_size
    slow_down(broker, 1 << 30)
    until_moved(broker, "/c")
    assert not any(one.is_future_key for result in described(broker).values() for topic in result.topics
                   for one in topic.partitions)  # fmt: skip


def test_a_throttled_move_takes_its_time_and_writes_go_on(broker: SimBroker):
    size = broker.here.node.replicas.by_name["t", 1].log.size_bytes
    slow_down(broker, size // 10)
    began_ms = broker.loop.mono_ms()
    assert alter(broker, "/c", 1) == [0]
    while place_of(broker, 1) == "/b":
        assert produce(broker, 1) == 0
        broker.loop.run_for(500)
    assert broker.loop.mono_ms() - began_ms > 9000
    assert values(broker) == broker.here.node.replicas.by_name["t", 1].log.end_offset > 60


def test_a_move_ends_under_writes_that_do_not_end(broker: SimBroker):
    peer = broker.peer()
    assert broker.wait_for(peer.connect())
    assert alter(broker, "/c", 1) == [0]
    acknowledged = 50
    while place_of(broker, 1) != "/c":
        assert produce(broker, 1) == 0
        acknowledged += 1
        assert acknowledged < 500
    assert values(broker) >= acknowledged


def test_who_waits_for_a_sync_when_the_replica_moves_is_answered(broker: SimBroker):
    assert alter(broker, "/c", 1) == [0]
    broker.machine.set_sync_us((400_000, 400_000))
    assert produce(broker, 1) == 0
    until_moved(broker, "/c")
    assert produce(broker, 1) == 0


def test_the_offsets_of_groups_may_be_moved_too():
    broker = SimBroker(more_directories=("/b",), offsets_topic_num_partitions="1")
    node = broker.here.node
    broker.wait_for(_created(node))
    name = "__consumer_offsets"
    target = "/b" if place_of(broker, 0, name) == "/data" else "/data"
    assert alter(broker, target, 0, name=name) == [0]
    assert broker.loop.run_until(lambda: place_of(broker, 0, name) == target, within_ms=10_000)
    assert node.replicas.by_name[name, 0].leader is not None


async def _created(node: object) -> None:
    assert await node.services.create_topic_as_configured("__consumer_offsets") == 0  # type: ignore[attr-defined]


def test_several_replicas_move_one_after_the_other():
    broker = SimBroker(more_directories=MORE)
    create(broker, partitions=6)
    assert alter(broker, "/c", *range(6)) == [0] * 6
    moved = lambda: {place_of(broker, index) for index in range(6)} == {"/c"}  # noqa: E731
    assert broker.loop.run_until(moved, within_ms=60_000)


def test_a_follower_moves_and_goes_on_following():
    cluster = SimCluster(3, more_directories=("/b",))
    create(cluster, partitions=1, replicas=3)
    until_placed(cluster, 1, 2, 3)
    leader = state(cluster).leader
    follower = next(number for number in (1, 2, 3) if number != leader)
    replica = cluster.node(follower).replicas.by_name["t", 0]
    here = replica.log.directory.removesuffix("/t-0")
    target = "/b" if here == "/data" else "/data"
    cluster.until(lambda: replica.follower is not None)
    topic = AlterReplicaLogDirTopic(name="t", partitions=[0])
    cluster.ask(follower, AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=target, topics=[topic])]))
    cluster.until(lambda: replica.log.directory == f"{target}/t-0")
    produce_to_leader(cluster, 0)
    cluster.until(lambda: replica.log.synced_offset == 1)


# --- requests ---


def test_errors_are_those_of_apache_kafka(broker: SimBroker):
    assert alter(broker, "/nowhere", 1) == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert alter(broker, "/c", 7) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert alter(broker, "/c", 0, name="n" * 230) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert alter(broker, "/b", 1) == [0]
    assert folders(broker) == {"/data": [], "/b": ["t-1"], "/c": []}


def test_a_replica_goes_where_it_was_wanted_before_it_was_there(broker: SimBroker):
    """With many new replicas, a topic is known before its replicas are made."""
    broker.here.node.replicas.directories.wanted["u", 0] = "/c"
    create(broker, "u", 1)
    assert place_of(broker, 0, "u") == "/c"


def test_a_replica_goes_where_it_was_wanted_though_there_was_no_room_at_first(broker: SimBroker):
    broker.here.node.replicas.directories.wanted["u", 0] = "/b"
    broker.machine.disk.fail("write", errno.ENOSPC, where="/b/u-0/partition.metadata")
    create(broker, "u", 1)
    broker.loop.run_for(3000)
    assert place_of(broker, 0, "u") == "/b"
    assert broker.here.node.replicas.directories.wanted == {}


def test_a_move_that_is_asked_for_again_goes_on_and_another_aim_turns_it(broker: SimBroker):
    slow_down(broker, 500)
    assert alter(broker, "/c", 1) == [0]
    before = next(iter(broker.here.node.replicas.moves)).future
    assert alter(broker, "/c", 1) == [0]
    assert next(iter(broker.here.node.replicas.moves)).future is before
    assert alter(broker, "/data", 1) == [0]
    slow_down(broker, 1 << 30)
    until_moved(broker, "/data")
    assert folders(broker) == {"/data": ["t-1"], "/b": [], "/c": []}


def test_a_move_to_where_it_is_takes_the_move_back(broker: SimBroker):
    slow_down(broker, 500)
    assert alter(broker, "/c", 1) == [0]
    assert alter(broker, "/b", 1) == [0]
    assert folders(broker) == {"/data": [], "/b": ["t-1"], "/c": []}
    assert list(broker.here.node.replicas.moves) == []


def test_a_topic_may_be_deleted_while_it_moves(broker: SimBroker):
    slow_down(broker, 500)
    assert alter(broker, "/c", 1) == [0]
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), most=6)
    assert folders(broker) == {"/data": [], "/b": [], "/c": []}
    assert list(broker.here.node.replicas.moves) == []


@pytest.mark.parametrize("clean", [True, False])
def test_a_move_that_a_restart_broke_off_begins_anew(broker: SimBroker, clean: bool):
    slow_down(broker, 500)
    assert alter(broker, "/c", 1) == [0]
    broker.loop.run_for(1500)
    broker.restart(clean=clean)
    assert place_of(broker, 1) == "/b"
    slow_down(broker, 1 << 30)
    until_moved(broker, "/c")
    assert values(broker) == 50
    assert folders(broker) == {"/data": [], "/b": [], "/c": ["t-1"]}


# --- disks that fail ---


def test_nothing_begins_to_move_while_a_directory_is_offline(broker: SimBroker):
    broker.here.node.around.disk_failed(OSError(errno.EIO, "broken", "/c/x"))
    broker.loop.run_for(100)
    assert alter(broker, "/c", 1) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert alter(broker, "/data", 1) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_destination_that_fails_leaves_the_replica_where_it_is(broker: SimBroker):
    slow_down(broker, 500)
    assert alter(broker, "/c", 1) == [0]
    broker.machine.disk.fail("write", errno.EIO, where="-future/")
    broker.loop.run_for(5000)
    assert described(broker)["/c"].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert place_of(broker, 1) == "/b"
    assert produce(broker, 1) == 0
    assert list(broker.here.node.replicas.moves) == []


def test_a_source_that_fails_takes_the_replica_with_it(broker: SimBroker):
    slow_down(broker, 500)
    assert alter(broker, "/c", 1) == [0]
    broker.machine.disk.fail("sync", errno.EIO, where="/b/t-1")
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    broker.loop.run_for(200)
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert list(broker.here.node.replicas.moves) == []
    broker.restart(clean=True)
    assert produce(broker, 1) == 0
    assert values(broker) >= 51


def test_a_full_destination_waits_for_room(broker: SimBroker):
    broker.machine.disk.fail("short write", errno.ENOSPC, where="-future/00000000000000000000.log")
    assert alter(broker, "/c", 1) == [0]
    broker.loop.run_for(200)
    assert place_of(broker, 1) == "/b"
    until_moved(broker, "/c")
    assert broker.here.node.replicas.directories.failed == {}
    assert values(broker) == 50


@pytest.mark.parametrize(("operation", "end"), [("create", 0), ("truncate", 3)])
def test_a_future_log_that_a_full_disk_stopped_half_way_begins_anew_once_there_is_room(
    broker: SimBroker, operation: str, end: int
):
    """The served log is cut: completely, so that the copy begins anew, or at its end, so that the copy is cut too."""
    slow_down(broker, 100)
    assert alter(broker, "/c", 1) == [0]
    served = broker.here.node.replicas.by_name["t", 1].log
    (move,) = broker.here.node.replicas.moves
    before = move.future
    assert broker.loop.run_until(lambda: before.end_offset > 5, within_ms=60_000)
    disk = broker.machine.disk
    for skip in range(3):
        disk.fail(operation, errno.ENOSPC, where="-future/", skip=skip)
    if end:
        served.truncate_to(end)
    else:
        served.truncate_fully_to(50, wall_ms=broker.here.node.around.clock.wall_ms())
    assert broker.loop.run_until(lambda: move.dropped, within_ms=10_000)
    broker.loop.run_for(10_000)
    assert broker.here.fatal is None
    slow_down(broker, 1_000_000)
    until_moved(broker, "/c")
    assert not broker.here.node.replicas.by_name["t", 1].log.refusing
    assert produce(broker, 1) == 0
    assert [name for names in folders(broker).values() for name in names] == ["t-1"]


FAULTS = [(operation, errno.EIO) for operation in ("write", "sync", "create", "rename", "remove", "sync names")]
FAULTS += [(operation, errno.ENOSPC) for operation in ("write", "sync", "create", "rename")]


@pytest.mark.parametrize("where", ["/b", "/c"])
@pytest.mark.parametrize(("operation", "error"), FAULTS)
def test_whatever_fails_in_a_move_nothing_acknowledged_is_lost(operation: str, where: str, error: int):
    """The fault strikes at each operation of its kind; then the broker starts without /b, without /c, and with both."""
    skip, came = 0, True
    while came and skip < 40:
        broker = SimBroker(more_directories=MORE)
        create(broker, partitions=2)
        assert rounds(broker, 2) == 2
        acknowledged = 2
        broker.machine.disk.fail(operation, error, where=where, skip=skip)
        alter(broker, "/c", 1)
        acknowledged += rounds(broker, 4)
        broker.loop.run_for(2500)
        acknowledged += rounds(broker, 1)
        came = not broker.machine.disk._faults
        assert broker.here.fatal is None
        for without in ("/b", "/c", None):
            broker.machine.disk.forget_faults()
            broker.here.stop(clean=skip % 2 == 0).result()
            broker.machine.vanish()
            if skip % 2:
                broker.machine.disk.lose_unsynced()
            if without is not None:
                broker.machine.disk.fail("read", errno.EIO, where=f"{without}/meta.properties")
            broker.start()
            served = broker.here.node.replicas.by_name.get(("t", 1))
            if served is not None:
                assert values(broker) >= acknowledged, (operation, where, skip, without)
                acknowledged += rounds(broker, 2)
            else:
                assert without is not None, (operation, where, skip)
        broker.loop.run_for(3000)
        assert values(broker) >= acknowledged
        names = [name for found in folders(broker).values() for name in found]
        assert names == ["t-1"], (operation, where, skip, names)
        skip += 1
    assert skip > 1


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("where", ["/b", "/c"])
def test_a_directory_that_fails_at_the_start_after_a_broken_off_swap_leaves_the_other_replica(where: str, after: int):
    """One of its syncs fails; the last comes when all its logs are open. The broker serves no replica that may be the
    older one, and every record once both directories are there again."""
    for skip in range(10):
        broker = SimBroker(more_directories=MORE)
        create(broker, partitions=2)
        assert rounds(broker, 3) == 3
        disk = broker.machine.disk
        disk.lie_in_wait("-future", after, partial(disk.broken.update, {"/b": None}))
        alter(broker, "/c", 1)
        acknowledged = 3 + rounds(broker, 4)
        broker.machine.vanish()
        disk.forget_faults()
        disk.fail("sync", errno.EIO, where=where, skip=skip)
        broker.start()
        served = broker.here.node.replicas.by_name.get(("t", 1))
        assert served is None or values(broker) >= acknowledged
        broker.here.stop(clean=True).result()
        broker.machine.vanish()
        came = not disk.to_fail
        disk.forget_faults()
        broker.start()
        assert values(broker) >= acknowledged
        if not came:
            break


def test_of_a_broken_off_swap_the_replica_that_outlives_the_other_does_not_lead():
    """Seed 161004 of three brokers: the newer replica was lost with its disk, and followers copied the older one."""
    broker = SimBroker(more_directories=MORE)
    create(broker, partitions=2)
    assert rounds(broker, 3) == 3
    disk = broker.machine.disk
    disk.lie_in_wait("-future", 2, partial(disk.broken.update, {"/b": None}))
    alter(broker, "/c", 1)
    assert rounds(broker, 4) == 4
    assert list(broker.here.node.replicas.directories.failed) == ["/b"]
    broker.machine.vanish()
    disk.forget_faults()
    disk.replace("/c")
    for _ in range(2):  # the mark is removed once the cluster knows
        broker.start()
        broker.loop.run_for(1000)
        state = broker.here.node.metadata.topic("t").partitions[1]  # type: ignore[union-attr]
        assert (state.leader, state.in_sync) != (1, (1,))
        assert not state.has_leader
        broker.machine.vanish()
