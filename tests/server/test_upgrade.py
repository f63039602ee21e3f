"""A data directory of the first version, started by this one; and the way back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import DidNotStart, OttlaProcess
from roll_from import source_of

from ottla.cli.main import main
from ottla.client import Cluster, CommittedOffset, Producer, TopicPartition
from ottla.client.model import LATEST

FIRST = "1b68fe5"
"""The last commit of the first layout of the metadata, before transactions."""
KEPT = TopicPartition("kept", 0)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The source of the first version."""
    try:
        return source_of(FIRST, tmp_path / "first")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the repository's history is not here")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OttlaProcess]:
    started = OttlaProcess(tmp_path / "data")
    yield started
    if started.process is not None:
        started.kill()


@pytest.fixture
def older(tmp_path: Path) -> Iterator[OttlaProcess]:
    started = OttlaProcess(tmp_path / "older")
    yield started
    if started.process is not None:
        started.kill()


def written(broker: OttlaProcess, *values: str) -> None:
    with Producer(broker.address) as producer:
        for value in values:
            producer.produce("kept", value, partition=0)


def held(broker: OttlaProcess) -> tuple[int, dict[TopicPartition, CommittedOffset]]:
    """The end of the topic, and the offsets of the group."""
    with Cluster(broker.address) as cluster:
        return cluster.list_offsets([KEPT], LATEST)[KEPT].offset, cluster.committed_offsets("readers")


def test_a_directory_of_the_first_version_goes_on_in_this_one_and_back_by_a_backup_alone(
    first: Path, tmp_path: Path, broker: OttlaProcess, older: OttlaProcess
) -> None:
    broker.source = older.source = first
    broker.start()
    written(broker, "one", "two", "three")
    with Cluster(broker.address) as cluster:
        cluster.commit_offsets("readers", {KEPT: CommittedOffset(2)})
    assert broker.stop() == 0, broker.log()

    broker.source = None
    broker.start()
    assert held(broker) == (3, {KEPT: CommittedOffset(2)})
    written(broker, "four")
    place = str(tmp_path / "backups")
    assert main(["backup", "create", place, "-b", broker.address]) == 0
    assert broker.stop() == 0, broker.log()

    broker.source = first  # the older program refuses what it does not know, and leaves it as it is
    with pytest.raises(DidNotStart, match="cannot start"):
        broker.start()
    broker.source = None
    broker.start()
    assert held(broker) == (4, {KEPT: CommittedOffset(2)})
    assert broker.stop() == 0, broker.log()

    older.start()
    assert main(["restore", place, "-b", older.address]) == 0
    assert held(older) == (4, {KEPT: CommittedOffset(2)})
