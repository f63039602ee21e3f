"""Limits of connections, with the time given."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.access.connection_limits import MANY, ConnectionLimits, IpLimits, RefusedConnection
from ottla.access.quotas import Rate
from ottla.config.connection_limits import ListenerLimits
from ottla.kernel.quotas import CONNECTION_CREATION_RATE, DEFAULT, QuotaEntity

CLIENTS, BROKERS = "CLIENTS", "BROKERS"
A, B = "192.0.2.1", "192.0.2.2"


NONE, NO_IP = ListenerLimits(), IpLimits()


def limits(
    broker: ListenerLimits = NONE, ips: IpLimits = NO_IP, clients: ListenerLimits = NONE, brokers: ListenerLimits = NONE
) -> ConnectionLimits:
    return ConnectionLimits(lambda: broker, lambda: ips, {CLIENTS: clients, BROKERS: brokers}, between_brokers=BROKERS)


def rate_of(rates: Mapping[str, float]) -> IpLimits:
    return IpLimits(quotas={QuotaEntity(ip=ip): {CONNECTION_CREATION_RATE: rate} for ip, rate in rates.items()})


@pytest.mark.parametrize("own", [ListenerLimits(per_second=1), ListenerLimits()])
def test_connections_above_the_rate_are_accepted_later_by_a_second_at_the_most(own: ListenerLimits) -> None:
    one = limits(broker=ListenerLimits() if own.per_second == 1 else ListenerLimits(per_second=1), clients=own)
    assert [one.delay_ms(CLIENTS, 0) for _ in range(10)] == [0] * 10
    assert one.delay_ms(CLIENTS, 0) == 1000
    assert one.delayed_ms[CLIENTS] == 1000
    assert one.delay_ms(CLIENTS, 60_000) == 0


def test_a_rate_of_nothing_delays_every_connection() -> None:
    assert limits(broker=ListenerLimits(per_second=0)).delay_ms(CLIENTS, 0) == 1000


def test_the_limits_of_the_broker_leave_its_peers_alone_and_those_of_their_listener_do_not() -> None:
    one = limits(broker=ListenerLimits(connections=0, per_second=0), brokers=ListenerLimits(connections=1))
    assert (one.delay_ms(BROKERS, 0), one.refusal(BROKERS, A, 0)) == (0, None)
    one.opened(BROKERS, A)
    assert one.refusal(BROKERS, A, 0) == RefusedConnection("max.connections of the listener")
    assert one.refusal(CLIENTS, A, 0) == RefusedConnection("max.connections")
    assert limits(brokers=ListenerLimits(per_second=0)).delay_ms(BROKERS, 0) == 1000


def test_a_listener_that_is_the_only_one_is_limited_whoever_comes_on_it() -> None:
    one = ConnectionLimits(lambda: ListenerLimits(0, 0), IpLimits, {BROKERS: ListenerLimits()}, between_brokers=BROKERS)
    assert (one.delay_ms(BROKERS, 0), one.refusal(BROKERS, A, 0)) == (1000, RefusedConnection("max.connections"))


def test_connections_of_all_listeners_count_for_the_broker() -> None:
    one = limits(broker=ListenerLimits(connections=2))
    one.opened(BROKERS, A)
    one.opened(CLIENTS, A)
    assert one.refusal(CLIENTS, B, 0) == RefusedConnection("max.connections")
    one.closed(BROKERS, A)
    assert one.refusal(CLIENTS, B, 0) is None
    assert one.refused == {(CLIENTS, "max.connections"): 1}


def test_an_address_has_its_own_limit_in_place_of_that_of_all() -> None:
    one = limits(ips=IpLimits(connections=1, overrides={A: 2, B: 0}))
    one.opened(CLIENTS, A)
    one.opened(CLIENTS, "192.0.2.3")
    assert one.refusal(CLIENTS, A, 0) is None
    assert one.refusal(CLIENTS, "::ffff:192.0.2.2", 0) == RefusedConnection("max.connections.per.ip.overrides")
    assert one.refusal(CLIENTS, "192.0.2.3", 0) == RefusedConnection("max.connections.per.ip")


def test_an_address_above_its_rate_is_closed_later_and_counts_nowhere() -> None:
    one = limits(broker=ListenerLimits(per_second=2), ips=rate_of({A: 1, DEFAULT: 1000}))

    def come(ip: str) -> RefusedConnection | None:
        assert one.delay_ms(CLIENTS, 0) == 0
        return one.refusal(CLIENTS, ip, 0)

    assert [come(A) for _ in range(10)] == [None] * 10
    assert [come(A) for _ in range(30)] == [RefusedConnection(CONNECTION_CREATION_RATE, 1000)] * 30
    assert [come(B) for _ in range(10)] == [None] * 10
    assert one.delay_ms(CLIENTS, 0) > 0


def test_the_default_rate_is_one_for_each_address() -> None:
    one = limits(ips=rate_of({DEFAULT: 0.1}))
    assert [one.refusal(CLIENTS, ip, 0) for ip in (A, B)] == [None, None]
    assert one.refusal(CLIENTS, A, 0) is not None


def test_very_many_addresses_are_looked_at_once_a_second_and_forgotten_when_they_are_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []
    is_idle = Rate.is_idle

    def looked_at(rate: Rate, now_ms: int) -> bool:
        looks.append(now_ms)
        return is_idle(rate, now_ms)

    monkeypatch.setattr(Rate, "is_idle", looked_at)
    one = limits(ips=rate_of({DEFAULT: 1}))
    for number in range(MANY + 50):
        assert one.refusal(CLIENTS, f"2001:db8::{number:x}", 5000) is None
    assert len(looks) == MANY
    assert one.refusal(CLIENTS, A, 60_000) is None
    assert one.refusal(CLIENTS, B, 60_001) is None
    assert looks[MANY:] == [60_000] * (MANY + 50)
