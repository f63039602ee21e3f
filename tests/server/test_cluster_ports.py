"""Ports of a cluster's brokers, on real sockets: chosen, kept, and refused if another process listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ports import free_port, free_ports

from ottla.server import cluster_ports
from ottla.server.cluster_ports import PortTaken, give_ports, problem
from ottla.server.kept_ports import parse_ports, ports_text


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def directories(root: Path, brokers: int = 1) -> dict[int, str]:
    return {number: str(root / f"broker-{number}") for number in range(1, brokers + 1)}


def kept(root: Path) -> dict[int, int]:
    files = root.glob("broker-*/port")
    return {int(file.parent.name.removeprefix("broker-")): int(file.read_text().rpartition(":")[2]) for file in files}


def keep(root: Path, broker: int, port: int) -> None:
    (root / f"broker-{broker}").mkdir()
    (root / f"broker-{broker}" / "port").write_text(f"127.0.0.1:{port}\n")


def test_ports_that_are_asked_for_are_kept(tmp_path):
    base = free_port()
    give_ports(directories(tmp_path), base)
    assert kept(tmp_path) == {1: base}
    give_ports(directories(tmp_path), None)
    assert kept(tmp_path) == {1: base}
    other = free_port()
    give_ports(directories(tmp_path), other)
    assert kept(tmp_path) == {1: other}


def test_a_port_that_is_taken_is_refused_by_name_and_nothing_changes(tmp_path, taken):
    before = free_port()
    give_ports(directories(tmp_path), before)
    with pytest.raises(PortTaken, match=f"port {taken} of broker 1 .*in use.*--port 0"):
        give_ports(directories(tmp_path), taken)
    with pytest.raises(PortTaken, match=f"port {taken} of broker 2 "):
        give_ports(directories(tmp_path, 2), taken - 1)
    assert kept(tmp_path) == {1: before}


def test_a_kept_port_that_is_taken_is_refused_unless_free_ones_are_asked_for(tmp_path, taken):
    free = free_port()
    keep(tmp_path, 1, taken)
    keep(tmp_path, 2, free)
    with pytest.raises(PortTaken, match=f"port {taken} of broker 1 "):
        give_ports(directories(tmp_path, 2), None)
    assert give_ports(directories(tmp_path, 2), 0) == {2: free}
    assert kept(tmp_path) == {2: free}


def test_the_usual_ports_are_for_brokers_that_have_none_yet(tmp_path, monkeypatch):
    usual, other = free_ports(2)
    monkeypatch.setattr(cluster_ports, "FIRST_PORT", usual)
    keep(tmp_path, 2, other)
    assert give_ports(directories(tmp_path, 3), None) == {1: usual, 3: usual + 2}
    assert kept(tmp_path) == {2: other}, "the brokers themselves find out whether usual ones are free"


def test_a_usual_port_that_another_broker_keeps_is_preferred_by_none(tmp_path, monkeypatch):
    usual = free_port()
    monkeypatch.setattr(cluster_ports, "FIRST_PORT", usual)
    keep(tmp_path, 2, usual)
    assert give_ports(directories(tmp_path, 2), None) == {}


def test_a_port_that_is_asked_for_is_not_merely_preferred(tmp_path):
    assert give_ports(directories(tmp_path), free_port()) == {}


def test_a_file_that_cannot_be_read_keeps_no_port(tmp_path):
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "port").write_text("nonsense\n")
    give_ports(directories(tmp_path), 0)
    base = free_port()
    give_ports(directories(tmp_path), base)
    assert kept(tmp_path) == {1: base}


def test_ports_beyond_the_last_are_a_wrong_argument():
    assert problem(None, 3) is None
    assert problem(0, 3) is None
    assert problem(65533, 3) is None
    assert "--port 65534" in str(problem(65534, 3))
    assert "--port -1" in str(problem(-1, 1))


def test_the_file_of_a_port_is_an_address_that_a_client_takes(tmp_path):
    base = free_port()
    give_ports(directories(tmp_path), base)
    assert (tmp_path / "broker-1" / "port").read_text() == f"127.0.0.1:{base}\n"


def test_the_port_that_an_older_version_kept_is_found(tmp_path):
    port = free_port()
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "port").write_text(f"PLAINTEXT {port}\n")
    assert give_ports(directories(tmp_path), 0) == {1: port}


@pytest.mark.parametrize(
    "addresses",
    [
        {"PLAINTEXT": "127.0.0.1:4000"},
        {"PLAINTEXT": "[::1]:4000"},
        {"OUTSIDE": "127.0.0.1:4000"},
        {"INSIDE": "127.0.0.1:4001", "PLAINTEXT": "127.0.0.1:4000"},
    ],
)
def test_ports_are_read_as_they_were_kept(addresses):
    text = ports_text(addresses)
    assert parse_ports(text) == addresses
    assert text.splitlines()[0] == addresses.get("PLAINTEXT", "127.0.0.1:4000")
