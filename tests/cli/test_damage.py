"""Tests of what the command line says about replicas that cannot be opened, and about files that a start set aside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import run_ottla as ottla

from ottla.testing import TestBroker


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two topics with a record each, of a broker that was stopped."""
    with TestBroker(directory=tmp_path / "data") as broker:
        for name in ("orders", "sound"):
            assert ottla("topic", "create", name, "-b", broker.bootstrap_servers).returncode == 0
            assert ottla("produce", name, "-b", broker.bootstrap_servers, stdin="hello\n").returncode == 0
    return tmp_path / "data"


def spoil(data: Path) -> None:
    for path in (data / "orders-0").glob("partition.metadata*"):
        path.write_bytes(b"\xff")


def test_doctor_says_why_a_partition_of_a_living_broker_has_no_leader(data: Path) -> None:
    spoil(data)
    with TestBroker(directory=data) as broker:
        told = ottla("doctor", "-b", broker.bootstrap_servers)
        read = ottla("consume", "sound", "-b", broker.bootstrap_servers, "--from", "beginning", "-n", "1")
    assert told.returncode == 1
    assert "orders-0 on broker 1" in told.stdout and "partition.metadata" in told.stdout
    assert "brokers are down" not in told.stdout
    assert "hello" in read.stdout


def test_cluster_describe_says_why_a_replica_is_offline(data: Path) -> None:
    spoil(data)
    with TestBroker(directory=data) as broker:
        shown = ottla("cluster", "describe", "orders", "-b", broker.bootstrap_servers)
        told = ottla("cluster", "describe", "orders", "--format", "json", "-b", broker.bootstrap_servers)
    assert "orders-0 on broker 1" in shown.stdout and "partition.metadata" in shown.stdout
    (topic,) = json.loads(told.stdout)
    assert topic["partitions"][0]["offline"] == [1]
    (trouble,) = topic["troubles"]
    assert (trouble["partition"], trouble["broker"]) == (0, 1) and "partition.metadata" in trouble["reason"]


def test_a_topic_without_a_leader_is_described_with_its_id_and_without_offsets(data: Path) -> None:
    """Its id is what an administrator writes into `partition.metadata` again."""
    kept = (data / "orders-0" / "partition.metadata").read_text()
    spoil(data)
    with TestBroker(directory=data) as broker:
        told = ottla("topic", "describe", "orders", "--format", "json", "-b", broker.bootstrap_servers)
        shown = ottla("topic", "describe", "orders", "-b", broker.bootstrap_servers)
    (topic,) = json.loads(told.stdout)
    assert f"topic_id: {topic['id']}" in kept
    (part,) = topic["partitions"]
    assert (part["leader"], part["first_offset"], part["end_offset"]) == (-1, None, None)
    assert shown.returncode == 0 and topic["id"] in shown.stdout


def test_doctor_is_content_with_a_sound_broker(data: Path) -> None:
    with TestBroker(directory=data) as broker:
        told = ottla("doctor", "-b", broker.bootstrap_servers)
    assert told.returncode == 0, told.stdout


@pytest.fixture
def stray(data: Path) -> Path:
    """The folder of a topic that the metadata does not know."""
    (data / "orders-0").rename(data / "older-0")
    for path in (data / "older-0").glob("partition.metadata*"):
        path.unlink()
    with TestBroker(directory=data) as broker:
        told = ottla("doctor", "-b", broker.bootstrap_servers)
    (folder,) = data.glob("*-stray")
    assert str(folder) in told.stdout
    return folder


def test_strays_are_listed_with_what_is_known_of_them(data: Path, stray: Path) -> None:
    told = ottla("log", "strays", str(data), "--format", "json")
    (one,) = json.loads(told.stdout)
    assert one["path"] == str(stray)
    assert (one["topic"], one["partition"], one["start_offset"], one["end_offset"]) == ("older", 0, 0, 1)
    assert one["since_ms"] > 0 and "partition.metadata" in one["reason"]
    shown = ottla("log", "strays", str(data))
    assert str(stray) in shown.stdout and "0..1" in shown.stdout


def test_a_stray_is_removed_when_an_administrator_says_so(data: Path, stray: Path) -> None:
    assert ottla("log", "strays", str(data / "sound-0")).stdout.count("-stray") == 0
    removed = ottla("log", "strays", str(stray), "--remove")
    assert removed.returncode == 0 and str(stray) in removed.stdout
    assert not stray.exists() and (data / "sound-0").is_dir()
    assert "-stray" not in ottla("log", "strays", str(data)).stdout


def test_a_place_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    told = ottla("log", "strays", str(tmp_path / "nowhere"))
    assert told.returncode == 2 and "nowhere" in told.stderr
