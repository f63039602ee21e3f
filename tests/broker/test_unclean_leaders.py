"""An administrator elects a leader that lacks committed records; followers cut back to such leaders only."""

from __future__ import annotations

import logging

import pytest
from one_topic import create, produce, replica, state
from sim_cluster import SimCluster

from ottla.broker.control import longest_logs
from ottla.broker.control.longest_logs import LogEnd, in_order
from ottla.kernel.errors import ErrorCode
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.metadata.entries import BrokerRegistered
from ottla.metadata.seal import read_entry

ANY_REPLICA = 11
ANY_ONE = longest_logs.ANY_REPLICA
UNCLEAN = 1


class Place:
    """Broker 3 is preferred, and is killed after two records; five more are committed on brokers 1 and 2.

    Then broker 2 is cut off, so that broker 1 alone is in sync and commits one more, and broker 1 dies. Broker 2 is
    never stopped.
    """

    def __init__(self, *, allowed: bool = False) -> None:
        """`allowed`: the topic allows unclean elections, and broker 3 is back, but cut off too, when broker 1 dies."""
        self.cluster = cluster = SimCluster(
            replica_lag_time_max_ms="2000", replica_high_watermark_checkpoint_interval_ms="600000"
        )
        configs = {"unclean_leader_election_enable": "true"} if allowed else {}
        create(cluster, 3, 1, 2, **configs)
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
        if allowed:
            self.between(1, 3, cluster.network.block)
            cluster.start(3)
        cluster.kill(1)
        self.between(1, 2, cluster.network.unblock)
        self.between(1, 3, cluster.network.unblock)
        if not allowed:
            cluster.until(lambda: not self.state(2).has_leader)
            cluster.start(3)

    def between(self, one, other, act):
        for sender, receiver in ((one, other), (other, one)):
            act(self.cluster.machines[sender].host, self.cluster.machines[receiver].host)

    def state(self, number):
        return state(self.cluster, number)

    def replica(self, number):
        return replica(self.cluster, number)

    def committed_at(self, number, offset):
        self.cluster.until(lambda: self.replica(number).log.high_watermark == offset)

    def produce(self, number, count):
        for _ in range(count):
            produce(self.cluster, number, acks=-1, timeout_ms=9000)

    def elect_uncleanly(self, *, cut_off_during=True, cut_off_after=False):
        """Elect uncleanly. Broker 2 cannot answer how long its log is while it is cut off, so the shorter log leads."""
        if cut_off_during:
            self.between(2, 3, self.cluster.network.block)
        topics = [TopicPartitions(topic="t", partitions=[0])]
        request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=topics, timeout_ms=5000)
        answer = self.cluster.ask(3, request)
        assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
        if not cut_off_after:
            self.between(2, 3, self.cluster.network.unblock)

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


def test_of_the_replicas_that_live_the_one_with_the_longest_log_is_elected(place):
    """Broker 3 is preferred and holds two records; broker 2 holds eight, the last of them uncommitted."""
    assert [place.replica(number).log.end_offset for number in (2, 3)] == [8, 2]
    place.elect_uncleanly(cut_off_during=False)
    assert place.state(3).leader == 2
    place.cluster.until(lambda: set(place.state(2).in_sync) == {2, 3})
    assert place.replica(3).log.end_offset == 8


def test_a_topic_that_allows_it_is_led_by_the_longest_log_without_anybody_asking(caplog):
    with caplog.at_level(logging.WARNING, "ottla.replicas"):
        place = Place(allowed=True)
        place.cluster.until(lambda: place.state(2).has_leader and place.state(2).leader != 1)
    assert place.state(2).leader == 2
    assert place.state(2).in_sync[0] == 2
    place.cluster.until(lambda: set(place.state(2).in_sync) == {2, 3})
    assert [place.replica(number).log.end_offset for number in (2, 3)] == [7, 7]
    (said,) = [record.getMessage() for record in caplog.records if "may lack committed records" in record.getMessage()]
    assert said.startswith("t-0 is led by broker 2")


def test_of_equally_long_logs_the_later_epoch_is_the_longer_and_then_the_preferred_replica():
    ends = {1: LogEnd(3, 10), 2: LogEnd(4, 5), 3: LogEnd(4, 7), 4: LogEnd(4, 7)}
    assert in_order([1, 5, 4, 2, 3], ends) == (4, 3, 2, 1, 5)


def test_a_client_is_not_told_where_a_replica_ends_that_does_not_lead(place):
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    answer = place.cluster.ask(2, ListOffsetsRequest(replica_id=ANY_ONE, topics=[asked]))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_was_cut_off_is_not_missed_after_a_crash(place):
    """With the older, higher watermark on disk, the replica would seem to have lost the end of its log."""
    place.cluster.node(2).replicas.upkeep.checkpoint_high_watermarks()
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
    place.elect_uncleanly(cut_off_after=True)
    place.cluster.until(lambda: place.replica(2).follower is not None)
    assert place.fetch(2, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_that_agreed_once_with_the_unclean_lineage_holds_on_to_what_is_committed(place):
    """Nothing was written in the unclean epoch, so the log itself does not show it."""
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
