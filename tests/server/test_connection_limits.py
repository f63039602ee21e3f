"""max.connections and max.connections.per.ip count all listeners, and may be changed while the broker runs."""

import socket

from ottla.client import Admin
from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.testing import TestBroker

API_VERSIONS = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00" + b"\x00\x00\x00\x07" + b"\xff\xff"


def _serves(connection: socket.socket) -> bool:
    try:
        connection.sendall(API_VERSIONS)
        return connection.recv(8)[4:] == b"\x00\x00\x00\x07"
    except (ConnectionResetError, BrokenPipeError):
        return False


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
