"""An administrator elects a leader that lacks committed records: the others cut back to it, and only to such a one."""

from __future__ import annotations

import pytest
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.metadata.entries import BrokerRegistered
from ottla.metadata.seal import read_entry
from ottla.records.builder import BatchBuilder

ANY_REPLICA = 11
UNCLEAN = 1


class Place:
    """Broker 3 is preferred, and killed after two records; of the five that follow, broker 2 holds all as committed.

    Then broker 2 is cut off, so that broker 1 alone is in sync and commits one more, and broker 1 dies. Broker 2 runs
    all the time.
    """

    def __init__(self) -> None:
        self.cluster = cluster = SimCluster(
            replica_lag_time_max_ms="2000", replica_high_watermark_checkpoint_interval_ms="600000"
        )
        replicas = [CreatableReplicaAssignment(partition_index=0, broker_ids=[3, 1, 2])]
        topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=replicas)
        cluster.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        cluster.until(lambda: all(("t", 0) in cluster.node(each).replicas.by_name for each in (1, 2, 3)))
        cluster.until(lambda: self.replica(3).leader is not None)
        self.produce(3, 2)
        self.committed_at(2, 2)
        cluster.kill(3)
        cluster.until(lambda: self.state(1).leader == 1)
        self.produce(1, 5)
        self.committed_at(2, 7)
        self.between(1, 2, cluster.network.block)
        self.produce(1, 1)
        assert self.state(1).in_sync == (1,)
        cluster.kill(1)
        self.between(1, 2, cluster.network.unblock)
        cluster.until(lambda: not self.state(2).has_leader)
        cluster.start(3)

    def between(self, one, other, act):
        for sender, receiver in ((one, other), (other, one)):
            act(self.cluster.machines[sender].host, self.cluster.machines[receiver].host)

    def state(self, number):
        return self.cluster.node(number).metadata.topic("t").partitions[0]

    def replica(self, number):
        return self.cluster.node(number).replicas.by_name[("t", 0)]

    def committed_at(self, number, offset):
        self.cluster.until(lambda: self.replica(number).log.high_watermark == offset)

    def produce(self, number, count):
        for _ in range(count):
            builder = BatchBuilder()
            builder.add(0, None, b"x")
            data = [PartitionProduceData(index=0, records=builder.build())]
            topics = [TopicProduceData(name="t", partition_data=data)]
            answer = self.cluster.ask(number, ProduceRequest(acks=-1, timeout_ms=9000, topic_data=topics), most=9)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    def elect_uncleanly(self):
        topics = [TopicPartitions(topic="t", partitions=[0])]
        request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=topics, timeout_ms=5000)
        answer = self.cluster.ask(3, request)
        assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE

    def fetch(self, number, offset):
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="t", partitions=[asked])]
        request = FetchRequest(session_epoch=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)
        return self.cluster.ask(number, request, most=ANY_REPLICA).responses[0].partitions[0]


@pytest.fixture
def place():
    return Place()


def test_a_running_follower_cuts_back_to_an_uncleanly_elected_leader_and_joins_it(place):
    assert place.replica(2).log.high_watermark == 7
    place.elect_uncleanly()
    place.cluster.until(lambda: place.state(3).in_sync == (3, 2))
    assert place.replica(2).follower.failed is None
    place.produce(3, 1)
    place.committed_at(2, 3)
    assert place.replica(2).log.end_offset == 3
    assert place.fetch(2, 4).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert place.fetch(2, 2).high_watermark == 3
    place.cluster.start(1)
    place.cluster.until(lambda: set(place.state(3).in_sync) == {1, 2, 3})
    assert place.replica(1).log.end_offset == 3


def test_what_was_cut_off_is_not_missed_after_a_crash(place):
    """Were the higher watermark the one on disk, the replica would be taken for one that has lost its tail."""
    place.cluster.node(2).replicas.checkpoint_high_watermarks()
    place.elect_uncleanly()
    place.cluster.until(lambda: place.state(3).in_sync == (3, 2))
    place.cluster.kill(2)
    place.cluster.until(lambda: place.state(3).in_sync == (3,))
    place.cluster.start(2)
    entries = [read_entry(entry).body for entry in place.cluster.store.read(0, 1000)]
    registered = [entry for entry in entries if isinstance(entry, BrokerRegistered) and entry.broker_id == 2]
    assert len(registered) == 2
    assert registered[-1].short == []


def test_before_it_has_agreed_with_its_leader_a_follower_shows_consumers_nothing_of_what_may_be_gone(place):
    place.between(2, 3, place.cluster.network.block)
    place.elect_uncleanly()
    place.cluster.until(lambda: place.replica(2).follower is not None)
    assert place.fetch(2, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_that_agreed_once_with_the_unclean_lineage_holds_on_to_what_is_committed(place):
    """Nothing was written in the unclean epoch, so that the log itself does not tell."""
    place.elect_uncleanly()
    place.cluster.until(lambda: place.state(3).in_sync == (3, 2))
    place.cluster.kill(3)
    place.cluster.until(lambda: place.state(2).leader == 2)
    place.cluster.start(3)
    place.cluster.until(lambda: set(place.state(2).in_sync) == {2, 3})
    replica, state = place.replica(2), place.state(2)
    assert replica.log.epochs.latest == state.leader_epoch > state.unclean_epoch
    replica.follow(3, state.leader_epoch + 1, state.unclean_epoch)
    assert replica.log.epochs.latest < state.unclean_epoch
    assert replica.follower.keeps_committed
