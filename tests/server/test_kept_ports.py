"""The port that a data directory was given lasts; a damaged note of it is said and mended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.server.kept_ports import keep_port, kept_ports
from ottla.testing import TestBroker


def become_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARMS: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(b"\xff\xfe\x00 \n\x80"),
    "no number": lambda path: path.write_text("PLAINTEXT 90x2\n"),
    "no port": lambda path: path.write_text("PLAINTEXT 99999999\n"),
    "one word": lambda path: path.write_text("PLAINTEXT\n"),
    "a directory": become_a_directory,
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_broker_starts_with_a_damaged_note_of_its_port_and_writes_it_anew(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    with TestBroker(directory=tmp_path):
        pass
    HARMS[harm](tmp_path / "port")
    with caplog.at_level(logging.WARNING), TestBroker(directory=tmp_path) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
    assert (tmp_path / "port").read_text() == f"PLAINTEXT {port}\n"
    assert harm == "emptied" or str(tmp_path / "port") in caplog.text
    with TestBroker(directory=tmp_path) as broker:
        assert int(broker.bootstrap_servers.rpartition(":")[2]) == port


def test_a_damaged_line_costs_one_listener(tmp_path: Path) -> None:
    keep_port(str(tmp_path), "PLAINTEXT", 4000)
    keep_port(str(tmp_path), "INSIDE", 4001)
    text = (tmp_path / "port").read_text()
    (tmp_path / "port").write_text(text.replace("4000", "4x00"))
    assert kept_ports(str(tmp_path)) == {"INSIDE": 4001}
