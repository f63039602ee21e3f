"""Consumers read from followers: sent there by rack, served committed records, sent back if it is not safe."""

from __future__ import annotations

import pytest
from one_topic import create, produce, replica, state
from sim_cluster import SimCluster

from ottla.config.broker_checks import RACK_AWARE
from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import run_story
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

ANY_REPLICA = 11


class Place:
    """Broker 1 leads `t`; each broker is in the rack of its number."""

    def __init__(self, **options: str) -> None:
        options = options or {"replica_selector_class": RACK_AWARE}
        self.cluster = SimCluster(broker_rack="rack-{}", replica_lag_time_max_ms="4000", **options)
        create(self.cluster, 1, 2, 3)
        self.cluster.until(lambda: state(self.cluster).in_sync == (1, 2, 3) and self.replica(2).follower.heard)

    def replica(self, number):
        return replica(self.cluster, number)

    def produce(self, count=1):
        for _ in range(count):
            produce(self.cluster, 1)

    def committed_at(self, number, offset):
        self.cluster.until(lambda: self.replica(number).log.high_watermark == offset)

    def request(self, offset=0, *, rack="", wait_ms=0, epoch=-1, **fields):
        asked = FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch
        )
        topics = [FetchTopic(topic="t", partitions=[asked])]
        fields = {"session_epoch": -1, "max_bytes": 1 << 20, "min_bytes": 1, "topics": topics} | fields
        return FetchRequest(max_wait_ms=wait_ms, rack_id=rack, **fields)

    def fetch(self, number, offset=0, *, most=ANY_REPLICA, **fields):
        answer = self.cluster.ask(number, self.request(offset, **fields), most=most)
        return answer.responses[0].partitions[0]

    def part(self, one, other):
        for sender, receiver in ((one, other), (other, one)):
            self.cluster.network.block(self.cluster.machines[sender].host, self.cluster.machines[receiver].host)


@pytest.fixture(scope="module")
def calm():
    """Write ten records, and wait until every broker has them and the topic is idle."""
    place = Place()
    place.produce(10)
    place.committed_at(2, 10)
    place.committed_at(3, 10)
    return place


def test_a_consumer_is_sent_to_the_replica_in_its_rack_with_no_records_and_at_once(calm):
    began = calm.cluster.loop.mono_ms()
    told = calm.fetch(1, 3, rack="rack-2", wait_ms=2000, min_bytes=1 << 20)
    assert (told.error_code, told.preferred_read_replica, told.records or b"", told.high_watermark) == (0, 2, b"", 10)
    assert calm.cluster.loop.mono_ms() - began < 500


@pytest.mark.parametrize("rack", ["", "rack-1", "rack-9"])
def test_the_leader_serves_its_own_rack_and_those_where_no_replica_is(calm, rack):
    told = calm.fetch(1, rack=rack)
    assert (told.error_code, told.preferred_read_replica) == (0, -1)
    assert told.records


def test_the_leader_serves_whoever_does_not_know_of_racks(calm):
    told = calm.fetch(1, rack="rack-2", most=10)
    assert told.error_code == 0 and told.records


def test_a_follower_serves_what_is_committed_and_says_how_far_that_is(calm):
    told = calm.fetch(2, 4, rack="rack-2", epoch=calm.replica(1).leader_epoch)
    assert (told.error_code, told.preferred_read_replica, told.high_watermark) == (0, -1, 10)
    assert told.records
    assert calm.cluster.node(2).replicas.traffic["t"].bytes_out >= len(told.records)


def test_a_follower_checks_epochs_as_a_leader_does(calm):
    epoch = calm.replica(1).leader_epoch
    assert calm.fetch(2, epoch=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_that_an_offset_is_out_of_range_the_leader_alone_says(calm):
    """A follower may lack an offset after its disk was replaced; consumers would start over elsewhere."""
    assert calm.fetch(2, 11).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert calm.fetch(1, 11).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_refuses_fetches_older_than_the_answer_that_names_replicas(calm):
    assert calm.fetch(2, most=ANY_REPLICA - 1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_offsets_are_asked_of_the_leader_alone(calm):
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    answers = [calm.cluster.ask(each, ListOffsetsRequest(replica_id=-1, topics=[asked])) for each in (1, 2)]
    found = [answer.topics[0].partitions[0] for answer in answers]
    assert [each.error_code for each in found] == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert found[0].offset == 10


def test_a_fetch_that_waits_at_a_follower_is_woken_by_what_is_committed():
    place = Place()
    place.produce()
    place.committed_at(2, 1)
    peer = place.cluster.peer(2)
    opened = place.cluster.wait_for(peer.ask(place.request(1, session_epoch=0), most=ANY_REPLICA))
    assert opened.session_id
    kept = {"session_id": opened.session_id, "topics": []}
    waits = run_story(peer.ask(place.request(wait_ms=2500, session_epoch=1, **kept), most=ANY_REPLICA))
    place.cluster.loop.run_for(1000)
    assert not waits.full
    began = place.cluster.loop.mono_ms()
    place.produce()
    told = place.cluster.end_of(waits).responses[0].partitions[0]
    assert place.cluster.loop.mono_ms() - began < 500
    assert told.records and told.high_watermark == 2
    forgotten = [ForgottenTopic(topic="t", partitions=[0])]
    place.cluster.wait_for(
        peer.ask(place.request(session_epoch=2, forgotten_topics_data=forgotten, **kept), most=ANY_REPLICA)
    )
    assert not place.replica(2).readers


def test_a_follower_shows_nothing_that_is_not_committed():
    place = Place()
    place.produce()
    place.committed_at(2, 1)
    place.part(1, 3)
    place.produce()
    place.cluster.until(lambda: place.replica(2).log.end_offset == 2)
    assert place.replica(2).log.high_watermark == 1
    for offset in (1, 2):
        told = place.fetch(2, offset)
        assert (told.error_code, told.records or b"", told.high_watermark) == (0, b"", 1)
    assert place.fetch(2, 3).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    place.committed_at(2, 2)  # once broker 3 has left the in-sync set
    assert place.fetch(2, 1).records


def test_a_follower_that_does_not_hear_its_leader_sends_consumers_back_who_stay_there():
    place = Place()
    place.produce()
    place.committed_at(2, 1)
    place.part(1, 2)
    assert place.fetch(2).records, "a short silence is none"
    place.cluster.until(lambda: state(place.cluster).in_sync == (1, 3), 20_000)
    place.cluster.until(lambda: place.fetch(2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, 5000)
    told = place.fetch(1, rack="rack-2")
    assert told.preferred_read_replica == -1 and told.records


def test_nobody_is_sent_to_a_broker_that_is_fenced():
    place = Place()
    place.produce()
    place.committed_at(2, 1)
    assert place.fetch(1, rack="rack-2").preferred_read_replica == 2
    place.cluster.kill(2)
    place.cluster.until(lambda: not place.cluster.node(1).metadata.is_live(2), 60_000)
    told = place.fetch(1, rack="rack-2")
    assert told.preferred_read_replica == -1 and told.records


def test_what_followed_and_leads_now_is_a_leader_to_consumers():
    place = Place()
    place.produce()
    place.committed_at(2, 1)
    place.cluster.kill(1)
    place.cluster.until(lambda: place.replica(2).leader is not None, 60_000)
    assert place.fetch(2, rack="rack-3").preferred_read_replica in (-1, 3)
    place.cluster.until(lambda: place.fetch(2, rack="rack-3").preferred_read_replica == 3)
    assert place.fetch(3, epoch=place.replica(2).leader_epoch - 1).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_without_a_selector_the_leader_serves_every_rack():
    place = Place(min_insync_replicas="1")
    place.produce()
    place.committed_at(1, 1)
    told = place.fetch(1, rack="rack-2")
    assert told.preferred_read_replica == -1 and told.records
