"""A metadata store is restored from a backup that is older than the brokers' directories."""

from __future__ import annotations

import json
import shutil

import pytest
from cluster_processes import OttlaCluster, until
from confluent_kafka.admin import AdminClient, NewTopic
from older_copies import Copied

from ottla.cli.main import main


@pytest.fixture
def restored(tmp_path):
    """Two stopped brokers; `newer` and 100 records of `t` came after the copy of the restored store."""
    with OttlaCluster(tmp_path, 2) as cluster:
        copied = Copied(cluster, tmp_path)
        copied.create(replicas=2, required=2)
        copied.produce(100)
        copied.stop()
        copied.copy(cluster.store)
        copied.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("newer", 1, 2)])["newer"].result(30)
        copied.produce(100)
        until(lambda: (copied.directory(1) / "newer-0").exists() and (copied.directory(2) / "newer-0").exists())
        copied.stop()
        copied.put_back(cluster.store)
        yield copied


def test_an_older_store_is_refused_and_nothing_is_deleted(restored):
    for number in (1, 2):
        with pytest.raises(RuntimeError, match="the metadata store is older than the log directory"):
            restored.start((number,))
        assert (restored.directory(number) / "newer-0" / "00000000000000000000.log").exists()
        assert restored.records_on_disk(restored.directory(number)) == 200
    log = restored.cluster.brokers[1].log()
    assert "Put the newer store back" in log and "ottla log accept-store" in log


def test_the_newer_store_is_taken_back(restored):
    shutil.rmtree(restored.cluster.store)
    restored.cluster.store.with_name("store.newer").rename(restored.cluster.store)
    restored.start()
    restored.all_in_sync()
    assert restored.read() == restored.acknowledged


def test_an_older_store_is_taken_as_it_is_where_an_administrator_says_so(restored, capsys):
    for number in (1, 2):
        assert main(["log", "accept-store", str(restored.directory(number))]) == 0, capsys.readouterr()
    restored.start()
    restored.all_in_sync()
    assert restored.read() == restored.acknowledged
    assert all("is taken as it is" in broker.log() for broker in restored.cluster.brokers.values())
    restored.produce(50)
    restored.stop()
    restored.start()
    restored.all_in_sync()
    assert restored.read() == restored.acknowledged
    assert restored.cluster.log().count("is taken as it is") == 2


def test_directories_and_store_that_are_put_back_together_simply_start(tmp_path):
    with OttlaCluster(tmp_path, 3) as cluster:
        copied = Copied(cluster, tmp_path)
        copied.create()
        copied.produce(100)
        copied.stop()
        places = [cluster.store, *(copied.directory(number) for number in (1, 2, 3))]
        for place in places:
            copied.copy(place)
        copied.start()
        copied.produce(100)
        copied.stop()
        for place in places:
            copied.put_back(place)
        copied.start()
        copied.all_in_sync()
        assert copied.read() == copied.acknowledged[:100]
        assert "WARNING" not in cluster.log()


def test_a_store_cannot_be_accepted_for_a_directory_in_use(tmp_path, capsys):
    with OttlaCluster(tmp_path, 1) as cluster:
        copied = Copied(cluster, tmp_path)
        assert main(["log", "accept-store", str(copied.directory(1))]) == 1
        assert "is in use" in capsys.readouterr().out
        assert main(["log", "accept-store", str(copied.directory(1)), "--format", "json"]) == 1
        assert json.loads(capsys.readouterr().out) == [{"directory": str(copied.directory(1)), "accepted": False}]
    assert main(["log", "accept-store", str(tmp_path)]) == 2
