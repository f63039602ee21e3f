"""A fetch in a broker's name is refused, and changes nothing, unless the connection has proved to be that broker."""

from __future__ import annotations

import pytest
from one_topic import create, produce, state
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_cluster import DescribeClusterRequest
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.apis import APIS
from ottla.wire.sasl import MECHANISM, Hello, check_answer, prove_dialler

DESCRIBE_CLUSTER = 60
IN_THE_HEAD, IN_A_TAG = 14, 18
"""Versions of Fetch with the replica id in the head, and in a tagged field."""


class Place:
    """Broker 1 leads; 2 follows but is cut off, and one record lacks only its receipt; 3 has no replica."""

    def __init__(self) -> None:
        cluster = self.cluster = SimCluster()
        create(cluster, 1, 2)
        cluster.until(lambda: self.replica().leader.high_watermark == 0 and 2 in state(cluster).in_sync)
        cluster.loop.run_for(1000)  # by now each fetch of the follower waits at the leader
        cluster.network.block("broker-2", "broker-1")
        produce(cluster, 1)
        follower = cluster.node(2).replicas.by_name[("t", 0)].log
        cluster.until(lambda: follower.synced_offset == self.replica().log.synced_offset == 1)
        assert self.high_watermark == 0

    def replica(self):
        return self.cluster.node(1).replicas.by_name[("t", 0)]

    @property
    def high_watermark(self):
        return self.replica().log.high_watermark

    def epoch_of(self, number):
        return self.cluster.node(1).metadata.brokers[number].epoch

    def connected(self, number=None, epoch=None):
        """A connection to broker 1; with `number`, proved to be that broker."""
        peer = self.cluster.peer(1, f"says-{number}")
        assert self.cluster.wait_for(peer.connect())
        if number is not None:
            self.cluster.wait_for(self.prove(peer, number, self.epoch_of(number) if epoch is None else epoch))
        return peer

    async def prove(self, peer, number, epoch):
        secret, mine = self.cluster.node(1).metadata.secret, Hello(number, epoch, b"n" * 32)
        assert (await peer._send(SaslHandshakeRequest(mechanism=MECHANISM), 1)).error_code == 0
        answer = await peer._send(SaslAuthenticateRequest(auth_bytes=mine.encode()), 2)
        proof = prove_dialler(secret, mine, check_answer(secret, mine, bytes(answer.auth_bytes)))
        assert (await peer._send(SaslAuthenticateRequest(auth_bytes=proof), 2)).error_code == 0

    def fetch(self, peer, *, version=IN_A_TAG, epoch=None, **fields):
        """Broker 2's receipt for the record, as broker 2 would send it."""
        asked = FetchPartition(
            partition=0,
            fetch_offset=1,
            partition_max_bytes=1 << 20,
            current_leader_epoch=self.replica().leader_epoch,
            last_fetched_epoch=self.replica().leader_epoch,
        )
        topic_id = self.cluster.node(1).metadata.topic("t").topic_id
        told = {
            "replica_id": 2,
            "replica_state": ReplicaState(replica_id=2, replica_epoch=self.epoch_of(2) if epoch is None else epoch),
            "max_wait_ms": 0,
            "session_epoch": -1,
            "topics": [FetchTopic(topic="t", topic_id=topic_id, partitions=[asked])],
        } | fields
        answer = self.cluster.end_of(peer._send(FetchRequest(**told), version))
        assert answer is not None
        return answer

    def seen(self):
        """All values that a receipt changes."""
        leader, node = self.replica().leader, self.cluster.node(1)
        followers, clients = node.fetch_sessions._followers, len(node.fetch_sessions)
        sessions = {principal: (session.id, session.epoch) for principal, session in followers.items()}
        spoke = node.replicas.spoke_ms.get(2)
        return self.high_watermark, dict(leader.held), leader.committed_in_sync, spoke, sessions, clients


@pytest.fixture(scope="module")
def place():
    return Place()


@pytest.mark.parametrize("version", [4, 6, 7, IN_THE_HEAD, IN_A_TAG])
@pytest.mark.parametrize("proved_as", [None, 3, 1], ids=["nobody", "another", "the leader"])
def test_a_fetch_in_the_name_of_a_broker_that_one_has_not_proved_to_be_is_refused_and_moves_nothing(
    place, version, proved_as
):
    peer, before = place.connected(proved_as), place.seen()
    answer = place.fetch(peer, version=version, session_epoch=0)
    error = (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED if version >= 7 else ErrorCode.NONE
    )  # earlier versions have no such field
    assert (answer.error_code, answer.session_id, answer.responses) == (error, 0, [])
    assert place.seen() == before
    peer.close()


def test_half_a_proof_is_none(place):
    peer, before = place.connected(), place.seen()

    async def begin():
        await peer._send(SaslHandshakeRequest(mechanism=MECHANISM), 1)
        hello = Hello(2, place.epoch_of(2), b"n" * 32)
        assert (await peer._send(SaslAuthenticateRequest(auth_bytes=hello.encode()), 2)).error_code == 0

    place.cluster.wait_for(begin())
    assert place.fetch(peer).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert place.seen() == before


def test_a1_a_proved_broker_that_names_another_incarnation_of_its_own_gives_no_receipt(place):
    peer, before = place.connected(2), place.seen()
    for epoch in (place.epoch_of(2) - 1, place.epoch_of(2) + 1, -1):
        (topic,) = place.fetch(peer, epoch=epoch).responses
        assert topic.partitions[0].error_code == ErrorCode.STALE_BROKER_EPOCH
        assert not topic.partitions[0].records
    assert place.seen()[:3] == before[:3]


@pytest.mark.parametrize("proved_as", [None, 3], ids=["nobody", "another"])
def test_the_session_of_a_follower_is_of_no_use_to_others(place, proved_as):
    session = place.cluster.node(1).fetch_sessions._followers["Broker:2"]
    peer, before = place.connected(proved_as), place.seen()
    going_on = {"session_id": session.id, "session_epoch": session.epoch, "topics": []}
    nobody = {"replica_id": -1, "replica_state": ReplicaState()}
    assert place.fetch(peer, **going_on).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert place.fetch(peer, **going_on, **nobody).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert place.seen() == before


@pytest.mark.parametrize("proved_as", [None, 2], ids=["a stranger", "a broker"])
def test_what_only_brokers_may_ask_strangers_are_refused(place, proved_as, monkeypatch):
    monkeypatch.setattr(APIS[DESCRIBE_CLUSTER], "peers_only", True)
    peer = place.connected(proved_as)
    answer = place.cluster.end_of(peer._send(DescribeClusterRequest(), 2))
    known = "" if proved_as is None else place.cluster.node(1).metadata.cluster_id
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if proved_as is None else ErrorCode.NONE
    assert (answer.error_code, answer.cluster_id) == (error, known)


def test_whoever_has_proved_to_be_the_follower_gives_its_receipt_until_its_next_incarnation_has_come_up():
    place = Place()
    peer, epoch = place.connected(2), place.epoch_of(2)
    assert place.fetch(peer).responses[0].partitions[0].error_code == ErrorCode.NONE
    assert place.high_watermark == 1
    produce(place.cluster, 1)
    place.cluster.until(lambda: place.replica().log.synced_offset == 2)
    place.cluster.kill(2)
    place.cluster.start(2)
    place.cluster.until(lambda: place.epoch_of(2) > epoch)
    for named in (epoch, place.epoch_of(2)):
        before = place.seen()
        answer = place.fetch(peer, epoch=named)
        assert (answer.error_code, answer.responses) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
        assert place.seen() == before
