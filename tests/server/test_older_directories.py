"""Older copies replace directories of real brokers: with another replica left, no acknowledged record is lost."""

from __future__ import annotations

import threading

import pytest
from cluster_processes import OttlaCluster, until
from older_copies import Copied

OLDER = "is older than what the cluster knows of it"
WAITS = "wait for an administrator"
NO_LEADER = -1


@pytest.fixture
def three(tmp_path):
    with OttlaCluster(tmp_path, 3, "--set", "replica.lag.time.max.ms=3000") as cluster:
        copied = Copied(cluster, tmp_path)
        copied.create()
        yield copied


@pytest.mark.parametrize("together", [False, True])
def test_a_copy_that_is_put_back_makes_no_replica_cut_what_was_acknowledged(three, together):
    three.produce(600)
    three.stop()
    three.copy(three.directory(1))
    three.start()
    three.produce(900)
    three.stop()
    three.put_back(three.directory(1))
    if together:
        starts = [threading.Thread(target=broker.start) for broker in three.cluster.brokers.values()]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
    else:
        three.start()
    three.all_in_sync()
    assert three.read() == three.acknowledged
    assert three.cluster.brokers[1].log().count(OLDER) == 1
    three.stop()
    assert [three.records_on_disk(three.directory(number)) for number in (1, 2, 3)] == [1500] * 3


def test_a_copy_alone_leads_nothing_while_others_are_left(three):
    three.produce(100)
    three.stop()
    three.copy(three.directory(3))
    three.start()
    three.all_in_sync()
    three.produce(100)
    three.stop((1, 2, 3))
    three.put_back(three.directory(3))
    three.start((3,))
    assert three.described(3) == (NO_LEADER, [])
    assert WAITS not in three.cluster.brokers[3].log()
    three.start((1,))
    assert three.described(1) == (NO_LEADER, [])
    three.start((2,))
    three.all_in_sync()
    assert three.read() == three.acknowledged


def test_a_copy_of_a_broker_that_runs_is_seen_for_what_it_is_after_kills(three):
    three.produce(300)
    three.copy(three.directory(2))
    three.produce(300)
    three.kill()
    three.start()
    three.produce(300)
    three.kill()
    three.put_back(three.directory(2))
    three.start((2, 1, 3))
    three.all_in_sync()
    assert three.read() == three.acknowledged
    assert OLDER in three.cluster.brokers[2].log()


def test_a_copy_that_was_made_while_the_broker_ran_is_older_than_what_it_closed(three):
    """The broker has not registered since; the copy is recognized because it was never closed."""
    three.produce(300)
    three.copy(three.directory(1))
    three.produce(300)
    three.stop((1, 2, 3))
    three.put_back(three.directory(1))
    three.start()
    three.all_in_sync()
    assert three.read() == three.acknowledged
    assert OLDER in three.cluster.brokers[1].log()


@pytest.mark.parametrize("first", [1, 2])
def test_a_copy_of_the_last_run_makes_no_replica_cut_what_was_acknowledged(tmp_path, first):
    """A snapshot of a running broker is put back after all have crashed: it names the last run."""
    noted = ("--set", "replica.high.watermark.checkpoint.interval.ms=200")
    with OttlaCluster(tmp_path, 3, "--set", "replica.lag.time.max.ms=3000", *noted) as cluster:
        three = Copied(cluster, tmp_path)
        three.create()
        three.produce(300)
        three.copy(three.directory(first))
        three.produce(300)
        until(lambda: all(three.noted_as_committed(number) == 600 for number in (1, 2, 3)))
        three.kill()
        three.put_back(three.directory(first))
        for age in tmp_path.rglob("brokers/*.age"):
            age.unlink()  # as if the copy were of the last second, or of a release that knows no ages
        three.start((first, *(number for number in (1, 2, 3) if number != first)))
        three.all_in_sync()
        assert three.read() == three.acknowledged
        assert OLDER not in cluster.log(), "its incarnation does not tell"
        assert "below what was committed here, 600" in cluster.log()
        three.produce(50)
        three.stop()
        assert [three.records_on_disk(three.directory(number)) for number in (1, 2, 3)] == [650] * 3


def test_two_of_three_snapshots_of_the_last_run_lead_nothing_before_the_third_broker_is_there(three):
    three.produce(360)
    until(lambda: all((three.directory(number) / "age").exists() for number in (1, 2, 3)))
    before = {number: three.age(number) for number in (1, 2)}
    for number in (1, 2):
        three.copy(three.directory(number))
    three.produce(240)
    until(lambda: all(three.stored_age(number) > before[number] for number in (1, 2)))
    three.kill()
    for number in (1, 2):
        three.put_back(three.directory(number))
    three.start((1, 2))
    until(lambda: three.described(1)[0] == NO_LEADER)
    until(lambda: all(three.cluster.brokers[number].log().count(OLDER) == 1 for number in (1, 2)))
    assert three.described(1)[0] == NO_LEADER
    three.start((3,))
    three.all_in_sync()
    assert three.read() == three.acknowledged


def test_a_directory_that_has_lost_its_mark_of_a_clean_stop_alone_is_not_older(three):
    three.produce(300)
    three.stop((1, 3, 2))
    (three.directory(2) / ".kafka_cleanshutdown").unlink()
    three.start()
    three.all_in_sync()
    assert three.read() == three.acknowledged
    assert OLDER not in three.cluster.log()
    assert three.cluster.log().count(".kafka_cleanshutdown is missing") == 1


def test_directories_that_are_as_they_were_left_are_older_after_no_kind_of_end(three):
    three.produce(100)
    three.stop()
    three.start()
    three.produce(100)
    three.kill()
    three.start()
    three.all_in_sync()
    three.stop((3, 1, 2))
    three.start()
    three.all_in_sync()
    assert three.read() == three.acknowledged
    assert OLDER not in three.cluster.log()
