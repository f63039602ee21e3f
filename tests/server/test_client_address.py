"""The address at which clients are told to reach the broker, as it is printed and as the metadata says it."""

import socket

import pytest

from ottla.client import Admin, Producer
from ottla.testing import TestBroker


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address_is_said_in_brackets_as_clients_read_it() -> None:
    with TestBroker({"listeners": "PLAINTEXT://[::1]:0"}) as broker:
        assert broker.bootstrap_servers.startswith("[::1]:")
        with Producer(broker.bootstrap_servers) as producer:
            assert producer.produce("books", "one").result(timeout=10).offset == 0


def test_an_advertised_port_of_0_is_the_port_that_was_taken() -> None:
    with TestBroker({"advertised.listeners": "PLAINTEXT://localhost:0"}) as broker:
        host, port = broker.bootstrap_servers.split(":")
        assert host == "localhost"
        assert int(port) > 0
        with Admin(broker.bootstrap_servers) as admin:
            assert [(each.host, each.port) for each in admin.describe_cluster().brokers] == [(host, int(port))]


def test_an_advertised_listener_without_a_host_names_this_machine() -> None:
    with TestBroker({"advertised.listeners": "PLAINTEXT://:9092"}) as broker:
        assert broker.bootstrap_servers == f"{socket.gethostname()}:9092"
