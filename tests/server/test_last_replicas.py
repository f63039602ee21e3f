"""The last replica of a partition comes back in an older directory: it waits for an administrator, who elects it
anyway or puts the newer directory back.
"""

from __future__ import annotations

import shutil

import pytest
from cluster_processes import OttlaCluster, until
from older_copies import TOPIC, Copied
from processes import OttlaProcess

from ottla.cli import doctor
from ottla.cli.kafka import leader_election
from ottla.cli.main import main

OLDER = "is older than what the cluster knows of it"
WAITS = "wait for an administrator"
NO_LEADER = -1


@pytest.fixture
def rolled_back(tmp_path):
    """The only replica holds 300 records, and the copy in its place 100; the newer directory is kept beside it."""
    with OttlaCluster(tmp_path, 2) as cluster:
        copied = Copied(cluster, tmp_path)
        copied.create(replicas=1, required=1)
        copied.produce(100)
        holder = copied.described(1)[0]
        copied.stop((holder,))
        copied.copy(copied.directory(holder))
        copied.start((holder,))
        copied.produce(200)
        copied.stop((holder,))
        newer = copied.put_back(copied.directory(holder))
        copied.start((holder,))
        yield copied, holder, newer


def test_the_last_replica_waits_and_says_so(rolled_back, capsys):
    copied, holder, _ = rolled_back
    assert copied.described(holder)[0] == NO_LEADER
    log = copied.cluster.brokers[holder].log()
    assert OLDER in log
    assert f"{WAITS}, as their last replica came back with an older log directory: {TOPIC}-0" in log
    address = copied.cluster.bootstrap_servers
    assert doctor.command(["-b", address]) == 1
    told = capsys.readouterr().out
    assert f"{TOPIC}-0 waits for an administrator: its last replica, on broker {holder}" in told
    assert "put the newer directory back" in told and "--election-type unclean" in told
    assert "their brokers are down" not in told
    assert main(["cluster", "describe", TOPIC, "-b", address]) == 0
    assert f"{TOPIC}-0 waits for an administrator" in capsys.readouterr().out


def test_the_newer_directory_is_taken_back_whole(rolled_back):
    copied, holder, newer = rolled_back
    copied.stop((holder,))
    copied.start((holder,))  # once more, so that the copy is unchanged
    assert copied.described(holder)[0] == NO_LEADER
    copied.stop((holder,))
    shutil.rmtree(copied.directory(holder))
    newer.rename(copied.directory(holder))
    copied.start((holder,))
    until(lambda: copied.described(holder) == (holder, [holder]))
    assert copied.read() == copied.acknowledged
    copied.produce(10)
    assert copied.read() == copied.acknowledged


def test_the_older_directory_is_accepted_by_an_unclean_election(rolled_back, capsys):
    copied, holder, _ = rolled_back
    arguments = ["--bootstrap-server", copied.cluster.bootstrap_servers, "--election-type", "unclean"]
    assert leader_election.command([*arguments, "--topic", TOPIC, "--partition", "0"]) == 0, capsys.readouterr()
    until(lambda: copied.described(holder)[0] == holder)
    assert copied.read() == copied.acknowledged[:100]
    copied.acknowledged = copied.acknowledged[:100]
    copied.produce(10)
    copied.stop((holder,))
    copied.start((holder,))
    assert copied.read() == copied.acknowledged


def test_one_of_several_log_directories_that_is_older_takes_no_other_with_it(tmp_path):
    """Two topics, each in a directory of its own of broker 1, replicated on broker 2."""
    here, other = tmp_path / "broker-1", tmp_path / "broker-1-more"
    with OttlaCluster(tmp_path, 2, "--set", "replica.lag.time.max.ms=3000") as cluster:
        copied = Copied(cluster, tmp_path)
        copied.stop((1,))
        cluster.brokers[1] = OttlaProcess(
            None, "--data", f"{here},{other}", "--id", "1", "--join", f"sqlite:{cluster.store}"
        )
        cluster.brokers[1].directory = None
        copied.start((1,))
        copied.create(replicas=2, partitions=4, required=2)
        copied.produce(100)
        copied.stop()
        place = here if (here / f"{TOPIC}-0").exists() else other
        copied.copy(place)
        copied.start()
        copied.all_in_sync()
        copied.produce(100)
        copied.stop()
        copied.put_back(place)
        copied.start()
        copied.all_in_sync()
        log = cluster.brokers[1].log()
        assert log.count(OLDER) == 1 and f"{place} {OLDER}" in log
        assert copied.read() == copied.acknowledged


def test_a_copy_of_a_lone_brokers_whole_directory_simply_starts(tmp_path):
    """Its store is inside, and so is as old as the logs."""
    with OttlaProcess(tmp_path / "data") as broker:
        copied = Copied(_alone(broker), tmp_path)
        copied.create(replicas=1, required=1)
        copied.produce(100)
        broker.stop()
        copied.copy(tmp_path / "data")
        broker.start()
        copied.produce(50)
        broker.stop()
        copied.put_back(tmp_path / "data")
        broker.start()
        assert copied.read() == copied.acknowledged[:100]
        assert "WARNING" not in broker.log()


def _alone(broker):
    """A cluster of one broker with just the parts that `Copied` uses."""
    cluster = OttlaCluster.__new__(OttlaCluster)
    cluster.brokers = {1: broker}
    return cluster
