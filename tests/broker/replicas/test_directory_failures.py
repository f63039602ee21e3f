"""A log directory that fails goes offline alone, unless the broker needs it."""

from __future__ import annotations

import errno

import pytest
from sim_broker import SimBroker
from two_directories import (
    MORE,
    a_produce,
    break_second,
    create,
    described,
    held,
    metric,
    place_of,
    produce,
    two_directories,
)

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_LEADER
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic


@pytest.fixture
def broker() -> SimBroker:
    return two_directories()


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
