"""Brokers use connections on which both have proved their identity; answers come from the incarnation asked."""

from __future__ import annotations

import pytest
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.messages.describe_cluster import DescribeClusterRequest
from ottla.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.sasl import MECHANISM, Hello

TWO = BrokerId(2)


def ask_two(cluster: SimCluster, purpose: str = "test", timeout_ms: int = 1000):
    return cluster.node(1).peers.call(TWO, purpose, DescribeClusterRequest(), 2, timeout_ms)


def proved_ends(cluster: SimCluster, number: int) -> list[int]:
    current = cluster.machines[number].current
    assert current is not None
    return [end.connection.peer for end in current.ends if end.connection.peer is not None]


def test_a_broker_asks_another_over_a_proved_connection():
    cluster = SimCluster(2)
    answer = cluster.end_of(ask_two(cluster))
    assert answer.cluster_id == cluster.node(1).metadata.cluster_id
    assert proved_ends(cluster, 2) == [1]


def test_requests_of_one_purpose_share_a_connection_and_purposes_do_not():
    cluster = SimCluster(2)
    slots = [ask_two(cluster) for _ in range(5)]
    for slot in slots:
        assert cluster.end_of(slot).error_code == 0
    assert proved_ends(cluster, 2) == [1]
    cluster.end_of(ask_two(cluster, "other"))
    assert proved_ends(cluster, 2) == [1, 1]


def test_who_does_not_know_the_secret_is_refused_and_closed():
    cluster = SimCluster(2)
    epoch = cluster.node(1).follow.broker_epoch

    async def pretend() -> tuple[int, int]:
        peer = cluster.peer(2)
        assert await peer.connect()
        await peer._send(SaslHandshakeRequest(mechanism=MECHANISM), 1)
        hello = await peer._send(SaslAuthenticateRequest(auth_bytes=Hello(1, epoch, b"n" * 32).encode()), 1)
        assert hello.error_code == 0
        refused = await peer._send(SaslAuthenticateRequest(auth_bytes=b"p" * 32), 1)
        return refused.error_code, await peer.send(DescribeClusterRequest(), timeout_ms=500)

    assert cluster.wait_for(pretend()) == (ErrorCode.SASL_AUTHENTICATION_FAILED, None)
    assert proved_ends(cluster, 2) == []


def test_a_wrong_secret_on_the_dialling_side_ends_in_an_error():
    cluster = SimCluster(2)
    cluster.node(1).metadata.secret = b"x" * 32
    with pytest.raises(OSError, match="the proof is wrong"):
        cluster.end_of(ask_two(cluster))


def test_an_earlier_incarnation_is_not_registered_and_so_no_broker_of_the_cluster():
    cluster = SimCluster(2)
    cluster.node(1).follow.broker_epoch = BrokerEpoch(cluster.node(1).follow.broker_epoch - 1)
    with pytest.raises(OSError, match="Not a broker of this cluster"):
        cluster.end_of(ask_two(cluster))


def test_a_step_without_a_handshake_is_refused():
    cluster = SimCluster(1)

    async def jump() -> int:
        peer = cluster.peer(1)
        assert await peer.connect()
        return (await peer._send(SaslAuthenticateRequest(auth_bytes=b""), 1)).error_code

    assert cluster.wait_for(jump()) == ErrorCode.ILLEGAL_SASL_STATE


def test_other_mechanisms_are_refused():
    cluster = SimCluster(1)

    async def shake() -> int:
        peer = cluster.peer(1)
        assert await peer.connect()
        return (await peer._send(SaslHandshakeRequest(mechanism="PLAIN"), 1)).error_code

    assert cluster.wait_for(shake()) == ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_who_waits_hears_that_a_peer_is_gone_and_reaches_its_next_incarnation():
    cluster = SimCluster(2)
    cluster.end_of(ask_two(cluster))
    before = cluster.node(1).metadata.brokers[TWO].epoch
    cluster.kill(2)
    with pytest.raises(OSError):
        cluster.end_of(ask_two(cluster))
    cluster.start(2)
    cluster.until(lambda: cluster.node(1).metadata.brokers[TWO].epoch > before)
    assert cluster.end_of(ask_two(cluster)).error_code == 0


def test_a_broker_that_is_not_registered_cannot_be_asked():
    cluster = SimCluster(1)
    with pytest.raises(OSError, match="not registered"):
        cluster.end_of(ask_two(cluster))


def test_a_peer_that_stands_still_is_given_up_in_time():
    cluster = SimCluster(2)
    cluster.end_of(ask_two(cluster))
    cluster.machines[2].pause()
    with pytest.raises(TimeoutError):
        cluster.end_of(ask_two(cluster, timeout_ms=200))


def test_a_broker_that_stops_asks_nobody():
    cluster = SimCluster(2)
    waiting = ask_two(cluster)
    cluster.node(1).peers.close()
    with pytest.raises(OSError):
        waiting.result()
    with pytest.raises(OSError):
        ask_two(cluster).result()
