"""Limits of connections count all listeners, and may be changed while the broker runs."""

import socket

import pytest

from ottla.client import Admin
from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.config.option import ConfigError
from ottla.config.resolve import read_static
from ottla.kernel.quotas import QuotaEntity
from ottla.server.measures import gather_process
from ottla.testing import TestBroker

API_VERSIONS = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00" + b"\x00\x00\x00\x07" + b"\xff\xff"


def _serves(connection: socket.socket) -> bool:
    try:
        connection.sendall(API_VERSIONS)
        return connection.recv(8)[4:] == b"\x00\x00\x00\x07"
    except (ConnectionResetError, BrokenPipeError):
        return False


def _metrics(broker: TestBroker) -> dict[tuple[str, ...], float]:
    """The metrics of connections, by their name and labels."""
    server = broker._running()
    samples = broker.call(lambda: list(gather_process(server._listeners, {}, server._loop_delay)))
    return {(one.metric.name, *one.labels): one.value for one in samples if "connections" in one.metric.name}


def _connected(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=60)


def test_the_limit_of_an_address_can_be_lowered_and_raised_while_the_broker_runs() -> None:
    with TestBroker() as broker, Admin(broker.bootstrap_servers) as admin:
        host, port = broker.bootstrap_servers.split(":")
        with _connected((host, int(port))) as before:
            assert _serves(before)
        everywhere = Resource(ResourceType.BROKER, "")
        limit = "max.connections.per.ip"
        assert admin.alter_configs({everywhere: [(limit, ConfigOperation.SET, "1")]}) == {everywhere: None}
        with _connected((host, int(port))) as refused:
            assert not _serves(refused)
        assert admin.alter_configs({everywhere: [(limit, ConfigOperation.DELETE, None)]}) == {everywhere: None}
        with _connected((host, int(port))) as again:
            assert _serves(again)


def test_connections_of_all_listeners_count_together() -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"
    protocols = "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
    settings = {"listeners": listeners, "listener.security.protocol.map": protocols, "max.connections": "1"}
    with TestBroker(settings) as broker:
        first, second = broker.call(lambda: list(broker._running().addresses.values()))
        with _connected(first) as one, _connected(second) as other:
            assert _serves(one)
            assert not _serves(other)


def test_a_connection_above_the_rate_is_served_after_its_delay() -> None:
    with TestBroker({"listener.name.plaintext.max.connection.creation.rate": "0"}) as broker:
        host, port = broker.bootstrap_servers.split(":")
        with _connected((host, int(port))) as late:
            assert _serves(late)
        assert _metrics(broker)["ottla_connections_delayed_seconds_total", "PLAINTEXT"] >= 1


def test_an_address_above_its_rate_is_closed_after_its_delay() -> None:
    with (
        TestBroker({"max.connections.per.ip.overrides": "127.0.0.9:0"}) as broker,
        Admin(broker.bootstrap_servers) as admin,
    ):
        host, port = broker.bootstrap_servers.split(":")
        admin.alter_quotas(QuotaEntity(ip="127.0.0.8"), {"connection_creation_rate": 1})
        refused = 0
        for source in ["127.0.0.8"] * 12 + ["127.0.0.9"]:
            with socket.create_connection((host, int(port)), timeout=60, source_address=(source, 0)) as one:
                refused += not _serves(one)
        counted = {limit: n for (name, *_, limit), n in _metrics(broker).items() if name.endswith("refused_total")}
        assert counted == {"connection_creation_rate": refused - 1, "max.connections.per.ip.overrides": 1}
        assert refused > 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max.connections.per.ip.overrides": "localhost:5"}, "localhost:5 is not IP:COUNT"),
        ({"max.connections.per.ip.overrides": "127.0.0.1:-1"}, "is not IP:COUNT"),
        ({"listener.name.plaintext.max.connections": "-1"}, "Value must be at least 0"),
        ({"listener.name.plaintext.max.conections": "1"}, "did you mean max.connections"),
    ],
)
def test_limits_that_cannot_be_meant_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_static(command_line={"listeners": "PLAINTEXT://127.0.0.1:0", **settings})
