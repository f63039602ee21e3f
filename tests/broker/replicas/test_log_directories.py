"""A broker with several log directories: where it puts replicas, and what still works after one has failed."""

from __future__ import annotations

import errno

import pytest
from sim_broker import SimBroker
from sim_cluster import SimCluster

from ottla.broker.measures import gather
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_LEADER
from ottla.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import build_batch
from ottla.records.reader import Record

MORE = ("/b", "/c")
BOTH = ("/data", "/b")


def create(
    place: SimBroker | SimCluster, name: str = "t", partitions: int = 2, replicas: int = 1, **configs: str
) -> None:
    options = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=options)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=3000)
    answer = place.ask(request) if isinstance(place, SimBroker) else place.ask(1, request)
    assert answer.topics[0].error_code == 0, answer


def a_produce(index: int, name: str = "t", acks: int = -1) -> ProduceRequest:
    records = build_batch([Record(0, 1_700_000_000_000, None, b"value")])
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=index, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=2000, topic_data=[data])


def produce(broker: SimBroker, index: int, acks: int = -1) -> int:
    response = broker.ask(a_produce(index, acks=acks), most=9)
    return int(response.responses[0].partition_responses[0].error_code)


def place_of(broker: SimBroker, index: int, name: str = "t") -> str:
    directory, _, _ = broker.here.node.replicas.by_name[name, index].log.directory.rpartition("/")
    return directory


def described(broker: SimBroker, **topics: list[int]) -> dict[str, DescribeLogDirsResult]:
    asked = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items()]
    response = broker.ask(DescribeLogDirsRequest(topics=asked or None))
    return {result.log_dir: result for result in response.results}


def held(result: DescribeLogDirsResult) -> list[tuple[str, int]]:
    return [(topic.name, one.partition_index) for topic in result.topics for one in topic.partitions]


def metric(broker: SimBroker, name: str) -> float:
    return sum(float(sample.value) for sample in gather(broker.here.node) if sample.metric.name == name)


@pytest.fixture
def broker() -> SimBroker:
    """A broker with two directories, and a topic with a partition of one record in each."""
    broker = SimBroker(more_directories=("/b",))
    create(broker)
    assert (place_of(broker, 0), place_of(broker, 1)) == BOTH
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    return broker


def break_second(broker: SimBroker) -> None:
    """Make the next sync in /b fail."""
    broker.machine.disk.fail("sync", errno.EIO, where="/b/")
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    broker.loop.run_for(200)


def start_in_vain(broker: SimBroker) -> None:
    """Start, and raise the reason why that failed."""
    started = broker.machine.start().started
    assert broker.loop.run_until(lambda: started.full, within_ms=5000)
    started.result()


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


# --- one fails ---


def test_a_failed_directory_goes_offline_alone(broker: SimBroker):
    break_second(broker)
    assert broker.here.fatal is None
    assert produce(broker, 0) == 0
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    found = described(broker)
    assert found["/b"].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert held(found["/b"]) == []
    assert held(found["/data"]) == [("t", 0)]


def test_who_waits_for_a_sync_in_a_failed_directory_is_told(broker: SimBroker):
    broker.machine.set_sync_us((50_000, 50_000))
    peer = broker.peer()
    assert broker.wait_for(peer.connect())
    broker.machine.disk.fail("sync", errno.EIO, where="/b/t-1")
    waiting = peer.send(a_produce(1), most=9)
    broker.loop.run_for(1000)
    (answer,) = waiting.result().responses[0].partition_responses
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_directory_whose_last_scrub_cannot_be_read_goes_offline_alone(broker: SimBroker):
    scrubber = broker.here.node.scrubber
    assert broker.loop.run_until(lambda: scrubber.passes > 0, within_ms=3_600_000)
    broker.machine.disk.broken["/b"] = None
    scrubber.round()
    assert broker.here.fatal is None
    assert list(broker.here.node.replicas.directories.failed) == ["/b"]
    assert produce(broker, 0) == 0


def test_a_failed_directory_is_counted(broker: SimBroker):
    assert metric(broker, "kafka_log_logmanager_offlinelogdirectorycount") == 0
    break_second(broker)
    assert metric(broker, "kafka_log_logmanager_offlinelogdirectorycount") == 1
    assert metric(broker, "kafka_log_logmanager_logdirectoryoffline") == 1
    assert metric(broker, "kafka_server_replicamanager_offlinereplicacount") == 1


def test_one_append_tells_the_cluster_of_all_replicas_in_a_failed_directory():
    broker = SimBroker(more_directories=("/b",))
    create(broker, partitions=40)
    before = broker.here.node.metadata.version
    broker.machine.disk.fail("sync", errno.EIO, where="/b/")
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    broker.loop.run_for(200)
    topic = broker.here.node.metadata.topic("t")
    assert topic is not None
    assert broker.here.node.metadata.version == before + 1
    assert sum(state.leader == NO_LEADER and state.offline == (1,) for state in topic.partitions) == 20


def test_the_cluster_is_told_of_a_directory_that_fails_while_it_is_told_of_another():
    broker = SimBroker(more_directories=MORE)
    create(broker, partitions=9)
    node = broker.here.node
    before = node.metadata.version
    for path in MORE:
        node.around.disk_failed(OSError(errno.EIO, "a controller of two disks", f"{path}/t-1"))
    broker.loop.run_for(5000)
    topic = node.metadata.topic("t")
    assert topic is not None
    lost = [state.partition for state in topic.partitions if state.leader == NO_LEADER and state.offline == (1,)]
    assert lost == [index for index in range(9) if ("t", index) not in node.replicas.by_name]
    assert len(lost) == 6
    assert node.metadata.version == before + 2


def test_metadata_says_which_replicas_are_offline(broker: SimBroker):
    break_second(broker)
    response = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
    first, second = response.topics[0].partitions
    assert (first.leader_id, first.offline_replicas) == (1, [])
    assert (second.leader_id, second.offline_replicas, second.isr_nodes) == (-1, [1], [1])


def test_the_preferred_leader_is_not_elected_while_its_directory_is_offline(broker: SimBroker):
    break_second(broker)
    topics = [TopicPartitions(topic="t", partitions=[1])]
    for kind in (0, 1):
        answer = broker.ask(ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=1000))
        assert answer.replica_election_results[0].partition_result[0].error_code != 0
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR


def test_new_replicas_go_to_the_directories_that_are_left(broker: SimBroker):
    break_second(broker)
    create(broker, "u", 3)
    assert {place_of(broker, index, "u") for index in range(3)} == {"/data"}


def test_a_replica_that_was_being_made_in_the_failing_directory_is_made_in_another():
    broker = SimBroker(more_directories=("/b",))
    broker.machine.disk.fail("write", errno.EIO, where="/b/t-1/partition.metadata")
    create(broker)
    broker.loop.run_for(200)
    assert {place_of(broker, index) for index in (0, 1)} == {"/data"}


def test_a_replica_that_was_half_made_when_the_disk_failed_is_not_found_beside_the_one_made_instead():
    broker = SimBroker(more_directories=("/b",))
    broker.machine.disk.fail("sync names", errno.EIO, where="/b/t-1")
    create(broker)
    broker.loop.run_for(200)
    assert {place_of(broker, index) for index in (0, 1)} == {"/data"}
    assert "t-1" not in broker.machine.disk.list("/b")
    broker.restart(clean=True)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]


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


def test_the_directory_with_the_metadata_takes_the_broker_with_it(broker: SimBroker):
    broker.machine.disk.fail("sync", errno.EIO, where="/data/t-0")
    peer = broker.peer()
    assert broker.wait_for(peer.connect())
    peer.send(a_produce(0), most=9)
    broker.loop.run_for(200)
    assert broker.here.fatal is not None
    assert broker.here.fatal.startswith("the log directory /data failed")


def test_an_error_that_names_no_directory_stops_the_broker(broker: SimBroker):
    broker.here.node.around.disk_failed(OSError(errno.EIO, "somewhere"))
    assert broker.here.fatal is not None


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


def leader_of(cluster: SimCluster, index: int) -> int:
    topic = cluster.node(1).metadata.topic("t")
    assert topic is not None
    return int(topic.partitions[index].leader)


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
    answer = cluster.ask(leader_of(cluster, index), a_produce(index), most=9)
    assert answer.responses[0].partition_responses[0].error_code == 0
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
