"""Backups of a cluster as in docs/guide/operations.md, which lose no acknowledged record.

The store alone is in test_older_stores.py, a broker that is alone in test_backup.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cluster_processes import OttlaCluster
from older_copies import Copied

WRONG = ("is older than", "cannot start", "is new", "stops following", "set aside")


@pytest.fixture
def three(tmp_path):
    with OttlaCluster(tmp_path, 3, "--set", "replica.lag.time.max.ms=3000") as cluster:
        copied = Copied(cluster, tmp_path)
        copied.create()
        copied.produce(300)
        yield copied


def replaced(place: Path, by: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(by, place)


def test_a_whole_cluster_that_is_put_back_is_as_it_was_at_its_backup(three, tmp_path):
    """Stop all, copy every data directory and the store, start again; to restore, put all of them back."""
    three.all_in_sync()
    three.stop()
    places = [*(three.directory(number) for number in (1, 2, 3)), three.cluster.store]
    backups = [shutil.copytree(place, tmp_path / "backup" / place.name) for place in places]
    at_the_backup = list(three.acknowledged)
    three.start()
    three.all_in_sync()
    three.produce(200)
    three.stop()
    for place, backup in zip(places, backups, strict=True):
        replaced(place, backup)
    three.start()
    three.all_in_sync()
    assert three.read() == at_the_backup
    three.acknowledged = at_the_backup
    three.produce(50)
    assert three.read() == three.acknowledged
    assert not [words for words in WRONG if words in three.cluster.log()]


def test_a_broker_whose_disk_is_lost_starts_empty_and_fetches_what_others_hold(three):
    """It starts with the same node.id, and logs the new directory."""
    three.all_in_sync()
    three.cluster.brokers[2].kill()
    shutil.rmtree(three.directory(2))
    three.produce(100)
    three.start((2,))
    three.all_in_sync()
    assert three.read() == three.acknowledged
    assert three.cluster.brokers[2].log().count("is new: it holds no replicas yet") == 1
    three.stop()
    assert [three.records_on_disk(three.directory(number)) for number in (1, 2, 3)] == [400] * 3


def test_a_copy_of_one_broker_saves_a_part_of_the_way_and_loses_nothing(three):
    three.all_in_sync()
    three.stop((2,))
    three.copy(three.directory(2))
    three.start((2,))
    three.all_in_sync()
    three.produce(200)
    three.cluster.brokers[2].kill()
    three.put_back(three.directory(2))
    three.start((2,))
    three.all_in_sync()
    assert three.read() == three.acknowledged
    assert three.cluster.brokers[2].log().count("is older than what the cluster knows of it") == 1
