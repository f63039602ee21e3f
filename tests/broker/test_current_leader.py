"""A client that asks a broker that does not lead is told which one does, in the versions that can say so (KIP-951)."""

from __future__ import annotations

import pytest
from one_topic import create, state
from sim_cluster import SimCluster

from ottla.broker.requests.produce_again import WaitingProduce
from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import run_story
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import BatchBuilder

LEADS, FOLLOWS, HAS_NONE = 1, 2, 3
PRODUCE_SAYS_IT, PRODUCE_NAMES = 10, 13
FETCH_SAYS_IT, FETCH_SAYS_WHERE = 12, 16
BY_TOPIC_ID = 13
NOBODY = (-1, -1)


class Place:
    """`t` has replicas on brokers 1, which leads, 2, and those in `more`."""

    def __init__(self, *more):
        self.cluster = SimCluster(broker_rack="rack-{}")
        create(self.cluster, LEADS, FOLLOWS, *more)
        self.cluster.until(lambda: state(self.cluster).leader == LEADS and set(state(self.cluster).in_sync) >= {1, 2})

    @property
    def epoch(self):
        return state(self.cluster).leader_epoch

    def named(self, version):
        if version < BY_TOPIC_ID:
            return "t", bytes(16)
        return "", self.cluster.node(1).metadata.topic("t").topic_id

    def ask(self, number, request, version):
        peer = self.cluster.peer(number)
        assert self.cluster.wait_for(peer.connect())
        return peer._send(request, version)

    def produce(self, number, version):
        return self.cluster.end_of(self.ask(number, self.a_produce(version), version))

    def a_produce(self, version):
        builder = BatchBuilder()
        builder.add(0, None, b"x")
        name, topic_id = self.named(version)
        data = [PartitionProduceData(index=0, records=builder.build())]
        topics = [TopicProduceData(name=name, topic_id=topic_id, partition_data=data)]
        return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)

    def fetch(self, number, version, **fields):
        return self.cluster.end_of(self.ask(number, self.a_fetch(version, **fields), version))

    def a_fetch(self, version, *, wait_ms=0, **fields):
        name, topic_id = self.named(version)
        asked = FetchPartition(partition=0, partition_max_bytes=1 << 20, **{"fetch_offset": 0} | fields)
        topics = [FetchTopic(topic=name, topic_id=topic_id, partitions=[asked])]
        return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)

    def hand_over(self):
        """Move the leadership from 1 to another in-sync broker; return its number."""
        self.cluster.end_of(self.cluster.node(LEADS).hand_over())
        self.cluster.until(lambda: state(self.cluster).leader not in (LEADS, -1))
        return state(self.cluster).leader


def told(answer):
    """The error, the leader with its epoch, and the leader's address, of the only partition."""
    (topic,) = answer.responses
    (partition,) = getattr(topic, "partition_responses", None) or topic.partitions
    leader = partition.current_leader
    ends = [(each.node_id, each.host, each.port, each.rack) for each in answer.node_endpoints]
    return partition.error_code, (leader.leader_id, leader.leader_epoch), ends


def at(number):
    return [(number, f"broker-{number}", 9092, f"rack-{number}")]


@pytest.fixture(scope="module")
def place():
    return Place()


@pytest.mark.parametrize("version", range(3, PRODUCE_NAMES + 1))
@pytest.mark.parametrize("asked", [FOLLOWS, HAS_NONE])
def test_a_producer_at_the_wrong_broker_is_told_who_leads(place, asked, version):
    says = version >= PRODUCE_SAYS_IT
    expected = ((LEADS, place.epoch), at(LEADS)) if says else (NOBODY, [])
    assert told(place.produce(asked, version)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, *expected)


@pytest.mark.parametrize("version", [4, 10, 11, 12, 13, 15, 16, 18])
@pytest.mark.parametrize("asked", [FOLLOWS, HAS_NONE])
def test_a_consumer_at_the_wrong_broker_is_told_who_leads(place, asked, version):
    answer = place.fetch(asked, version, fetch_offset=99)  # from 11 on a follower serves its own records
    leader = (LEADS, place.epoch) if version >= FETCH_SAYS_IT else NOBODY
    where = at(LEADS) if version >= FETCH_SAYS_WHERE else []
    assert told(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader, where)


def test_whoever_asks_in_an_epoch_that_is_over_is_told_of_the_present_one():
    place = Place()
    before = place.epoch
    assert place.hand_over() == FOLLOWS
    place.cluster.until(lambda: place.cluster.node(2).replicas.by_name[("t", 0)].leader is not None)
    for asked in (LEADS, FOLLOWS):
        for version in (9, 11, 12, 15, 16, 18):
            leader = (FOLLOWS, place.epoch) if version >= FETCH_SAYS_IT else NOBODY
            where = at(FOLLOWS) if version >= FETCH_SAYS_WHERE else []
            answer = place.fetch(asked, version, current_leader_epoch=before)
            error = ErrorCode.FENCED_LEADER_EPOCH
            if asked == LEADS and version < 11:  # to which a follower has no other answer
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert told(answer) == (error, leader, where), (asked, version)


@pytest.mark.parametrize("version", [PRODUCE_SAYS_IT - 1, PRODUCE_SAYS_IT, PRODUCE_NAMES])
def test_a9_producers_that_wait_when_leadership_goes_are_told_who_leads_now(version, monkeypatch):
    place = Place(3)
    place.cluster.until(lambda: set(state(place.cluster).in_sync) == {1, 2, 3})
    assert told(place.produce(LEADS, version))[0] == ErrorCode.NONE
    silent = 3
    place.cluster.network.block(f"broker-{silent}", f"broker-{LEADS}")
    quick = []
    fill = WaitingProduce.fill
    monkeypatch.setattr(WaitingProduce, "fill", lambda self, value: (quick.append(value), fill(self, value))[1])
    peer = place.cluster.peer(LEADS)
    assert place.cluster.wait_for(peer.connect())
    waiting = [peer._send(place.a_produce(version), version, 30_000) for _ in range(3)]
    place.cluster.until(lambda: place.cluster.node(LEADS).replicas.by_name[("t", 0)].log.end_offset == 4)
    assert not any(slot.full for slot in waiting)
    new = place.hand_over()
    expected = ((new, place.epoch), at(new)) if version >= PRODUCE_SAYS_IT else (NOBODY, [])
    for slot in waiting:
        assert told(place.cluster.end_of(slot)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, *expected)
    assert quick == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2, "the first is a story, the others are not"


@pytest.mark.parametrize("version", [9, 11, 12, 18])
def test_a_consumer_that_waits_when_leadership_goes_is_told_who_leads_now(version):
    place = Place()
    waiting = run_story(ask_patiently(place, version))
    place.cluster.loop.run_for(200)
    assert not waiting.full
    assert place.hand_over() == FOLLOWS
    error = ErrorCode.FENCED_LEADER_EPOCH if version >= 11 else ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = (FOLLOWS, place.epoch) if version >= FETCH_SAYS_IT else NOBODY
    where = at(FOLLOWS) if version >= FETCH_SAYS_WHERE else []
    assert told(place.cluster.end_of(waiting, 2000)) == (error, leader, where)


async def ask_patiently(place, version):
    peer = place.cluster.peer(LEADS)
    assert await peer.connect()
    request = place.a_fetch(version, wait_ms=20_000, current_leader_epoch=place.epoch)
    return await peer._send(request, version, 30_000)
