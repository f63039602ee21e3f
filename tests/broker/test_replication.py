"""Three brokers in virtual time: acknowledged records are on every in-sync disk, and outlive their leader."""

from __future__ import annotations

import pytest
from one_topic import reassign, replica, state, try_to_produce
from plain_requests import a_deletion_of_records
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import BatchBuilder
from ottla.replication.follower import FollowerReplica


class Place:
    """A topic on three brokers, of which two must have a record before it is committed."""

    def __init__(self) -> None:
        self.cluster = SimCluster(min_insync_replicas="2")
        self.cluster.create_topic(replicas=3)
        self.cluster.until(lambda: all(("t", 0) in self.cluster.node(each).replicas.by_name for each in (1, 2, 3)))

    def state(self, number):
        return state(self.cluster, number)

    def replica(self, number):
        return replica(self.cluster, number)

    def end_at(self, number, isolation_level=0):
        asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[asked])
        answer = self.cluster.ask(number, request)
        return answer.topics[0].partitions[0]

    def produce(self, number, topic="t"):
        return try_to_produce(self.cluster, number, topic=topic, acks=-1)


def test_an_acknowledged_record_is_on_every_in_sync_disk():
    place = Place()
    leader = place.state(1).leader
    assert place.produce(leader) == ErrorCode.NONE
    assert [place.replica(number).log.synced_offset for number in (1, 2, 3)] == [1, 1, 1]


def test_another_leads_when_the_leader_is_killed_and_the_old_one_comes_back():
    place = Place()
    old = place.state(1).leader
    assert place.produce(old) == ErrorCode.NONE
    place.cluster.kill(old)
    other = next(number for number in (1, 2, 3) if number != old)
    place.cluster.until(lambda: place.state(other).leader not in (old, -1), 60_000)
    new = place.state(other).leader
    place.cluster.until(lambda: place.replica(new).leader is not None)
    assert place.produce(new) == ErrorCode.NONE
    assert place.replica(new).log.high_watermark == 2
    place.cluster.start(old)
    place.cluster.until(lambda: len(place.state(new).in_sync) == 3, 60_000)
    assert place.replica(old).log.synced_offset == 2


def test_below_the_least_in_sync_set_nothing_is_appended():
    place = Place()
    leader = place.state(1).leader
    for number in (1, 2, 3):
        if number != leader:
            place.cluster.kill(number)
    place.cluster.until(lambda: len(place.state(leader).in_sync) == 1, 60_000)
    assert place.produce(leader) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert place.replica(leader).log.end_offset == 0


def test_who_leaves_hands_over_first_and_says_farewell():
    place = Place()
    leader = place.state(1).leader
    assert place.produce(leader) == ErrorCode.NONE
    node = place.cluster.node(leader)
    place.cluster.end_of(node.hand_over())
    other = next(number for number in (1, 2, 3) if number != leader)
    new = place.state(other).leader
    assert new not in (leader, -1)
    assert place.replica(new).leader is not None
    assert place.replica(leader).follower.heard
    assert leader not in place.state(other).in_sync
    assert place.produce(leader) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert place.produce(new) == ErrorCode.NONE
    assert not place.cluster.node(other).metadata.brokers[leader].fenced
    place.cluster.end_of(place.cluster.machines[leader].current.stop(clean=True))
    place.cluster.until(lambda: place.cluster.node(other).metadata.brokers[leader].fenced, 50)


def test_the_last_broker_leads_to_the_end():
    place = Place()
    for number in (1, 2):
        place.cluster.end_of(place.cluster.node(number).hand_over())
        place.cluster.end_of(place.cluster.machines[number].current.stop(clean=True))
    assert place.state(3).leader == 3
    place.cluster.end_of(place.cluster.node(3).hand_over())
    assert place.replica(3).leader is not None
    assert not place.cluster.node(3).metadata.brokers[3].draining


def test_a_new_partition_does_not_wait_for_the_fetch_that_waits_at_its_leader():
    place = Place()
    leader = place.state(1).leader
    assert place.produce(leader) == ErrorCode.NONE
    place.cluster.loop.run_for(1100)  # all fetches wait at the leader
    replicas = [leader, *(number for number in (1, 2, 3) if number != leader)]
    assignment = [CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)]
    topic = CreatableTopic(name="u", num_partitions=-1, replication_factor=-1, assignments=assignment)
    place.cluster.ask(leader, CreateTopicsRequest(topics=[topic], timeout_ms=5000))
    before_ms = place.cluster.loop.mono_ms()
    assert place.produce(leader, topic="u") == ErrorCode.NONE
    assert place.cluster.loop.mono_ms() - before_ms < 100


def test_records_that_were_deleted_are_deleted_on_followers():
    place = Place()
    leader = place.state(1).leader
    for _ in range(3):
        assert place.produce(leader) == ErrorCode.NONE
    answer = place.cluster.ask(leader, a_deletion_of_records(2, timeout_ms=1000))
    assert answer.topics[0].partitions[0].low_watermark == 2
    place.cluster.until(lambda: [place.replica(number).log.log_start_offset for number in (1, 2, 3)] == [2, 2, 2])


@pytest.mark.parametrize("isolation_level", [0, 1], ids=["all records", "committed records"])
def test_a_new_leader_says_no_end_before_it_knows_what_was_committed(isolation_level: int):
    place = Place()
    old = place.state(1).leader
    assert place.produce(old) == ErrorCode.NONE
    others = [number for number in (1, 2, 3) if number != old]
    cluster = place.cluster
    cluster.network.block(f"broker-{others[0]}", f"broker-{others[1]}")
    cluster.network.block(f"broker-{others[1]}", f"broker-{others[0]}")
    for number in (1, 2, 3):  # they learn the high watermark only from each other
        cluster.kill(number)
    for number in others:
        cluster.start(number)
    cluster.until(lambda: place.state(others[0]).leader not in (old, -1), 60_000)
    new = place.state(others[0]).leader
    cluster.until(lambda: ("t", 0) in cluster.node(new).replicas.by_name and place.replica(new).leader is not None)
    cluster.until(cluster.node(new).around.may_lead)
    assert place.end_at(new, isolation_level).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    cluster.network.unblock_all()
    cluster.until(lambda: place.end_at(new, isolation_level).offset == 1, 60_000)


def test_records_are_deleted_on_every_in_sync_disk_before_it_is_answered():
    place = Place()
    leader = place.state(1).leader
    for _ in range(5):
        place.produce(leader)
    answer = place.cluster.ask(leader, a_deletion_of_records(3, timeout_ms=3000))
    assert answer.topics[0].partitions[0].low_watermark == 3
    for number in (1, 2, 3):
        node = place.cluster.node(number)
        assert node.replicas.start_on_disk(place.replica(number)) == 3
    place.cluster.end_of(place.cluster.node(leader).hand_over())
    new = place.state(leader).leader
    assert new != leader
    assert place.replica(new).leader.promised_start == 3, "who joins the next leader has deleted them too"


def test_records_are_not_said_to_be_deleted_while_a_replica_in_sync_is_silent():
    place = Place()
    leader = place.state(1).leader
    for _ in range(5):
        place.produce(leader)
    silent = next(number for number in (1, 2, 3) if number != leader)
    place.cluster.network.block(f"broker-{silent}", f"broker-{leader}")
    answer = place.cluster.ask(leader, a_deletion_of_records(3, timeout_ms=500))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_replica_that_is_taken_away_and_given_back_joins_again_though_nothing_is_written():
    place = Place()
    leader = place.state(1).leader
    other = next(number for number in (1, 2, 3) if number != leader)
    place.cluster.loop.run_for(1100)
    for replicas in ([number for number in (1, 2, 3) if number != other], [1, 2, 3]):
        reassign(place.cluster, *replicas)
        place.cluster.until(lambda replicas=replicas: sorted(place.state(leader).in_sync) == replicas, 20_000)


def test_a_fetch_costs_no_look_at_partitions_of_which_nothing_has_moved(monkeypatch):
    place = Place()
    place.cluster.create_topic("many", partitions=30, replicas=3)
    place.cluster.loop.run_for(6000)
    looks = 0
    ask = FollowerReplica.ask

    def counted(self, **ends):
        nonlocal looks
        looks += 1
        return ask(self, **ends)

    monkeypatch.setattr(FollowerReplica, "ask", counted)
    place.cluster.loop.run_for(4000)  # each of six fetches has returned eight times
    followed = 2 * 31
    assert looks <= followed
    leader = place.state(1).leader
    assert place.produce(leader) == ErrorCode.NONE
    assert looks <= 2 * followed


def test_followers_ask_as_they_are_told_to():
    said = {
        "replica_fetch_max_bytes": 5000,
        "replica_fetch_response_max_bytes": 70_000,
        "replica_fetch_min_bytes": 3,
        "replica_fetch_wait_max_ms": 120,
        "replica_socket_timeout_ms": 7000,
    }
    cluster = SimCluster(**{name: str(value) for name, value in said.items()})
    asked = []
    for number in (1, 2, 3):
        peers = cluster.node(number).peers

        def call(leader, purpose, request, version, timeout_ms, call=peers.call):
            asked.append((request, timeout_ms))
            return call(leader, purpose, request, version, timeout_ms)

        peers.call = call
    cluster.create_topic(replicas=3)
    cluster.loop.run_for(1000)
    assert len(asked) > 10, "each comes back after a tenth of a second"
    assert max(request.max_wait_ms for request, _ in asked) == 120, "less where a partition rests"
    for request, timeout_ms in asked:
        assert (request.max_bytes, request.min_bytes, timeout_ms) == (70_000, 3, 7000)
        assert {place.partition_max_bytes for topic in request.topics for place in topic.partitions} <= {5000}


def test_what_one_sync_puts_on_disk_is_looked_at_once(monkeypatch):
    cluster, count = SimCluster(), 60
    placed = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1, 2, 3]) for index in range(count)]
    topic = CreatableTopic(name="many", num_partitions=-1, replication_factor=-1, assignments=placed)
    cluster.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=5000))
    cluster.loop.run_for(6000)
    looks = 0
    ask = FollowerReplica.ask

    def counted(self, **ends):
        nonlocal looks
        looks += 1
        return ask(self, **ends)

    monkeypatch.setattr(FollowerReplica, "ask", counted)
    builder = BatchBuilder()
    builder.add(0, None, b"x")
    records = builder.build()
    data = [PartitionProduceData(index=index, records=records) for index in range(count)]
    produced = [TopicProduceData(name="many", partition_data=data)]
    answer = cluster.ask(1, ProduceRequest(acks=-1, timeout_ms=3000, topic_data=produced), most=9)
    assert all(part.error_code == ErrorCode.NONE for part in answer.responses[0].partition_responses)
    followers = 2
    assert looks <= 4 * followers * count
