"""Between recovering its logs and registering, a broker may miss that a topic was deleted and created again."""

from __future__ import annotations

import logging

import one_topic
import pytest
from sim_cluster import SimCluster

from ottla.kernel.ids import NO_LEADER, TopicPartition
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.sim.coordination import CALM


def produce(cluster: SimCluster) -> None:
    one_topic.produce(cluster, one_topic.state(cluster).leader, acks=-1)


def test_a6_a_replica_written_without_syncs_does_not_lead_after_a_crash_while_another_is_in_sync():
    cluster = SimCluster()
    cluster.create_topic(replicas=3, write_caching="true")
    one_topic.until_placed(cluster, 1, 2, 3)
    produce(cluster)
    for number in (1, 2, 3):
        cluster.kill(number)
        cluster.machines[number].disk.lose_unsynced()
    first = cluster.machines[1]
    first.start()
    cluster.until(lambda: first.serving is not None)
    state = one_topic.state(cluster)
    assert 1 not in state.in_sync
    assert state.leader != 1


def test_records_that_a_loss_of_power_took_are_not_damage_for_a_start_after_a_kill():
    """Seed 201933: the high watermark was still written down as before the loss, and nobody could write any more."""
    cluster = SimCluster()
    cluster.create_topic(replicas=3, write_caching="true")
    one_topic.until_placed(cluster, 1, 2, 3)
    produce(cluster)
    directories = [cluster.node(each).replicas.directories.online[0] for each in (1, 2, 3)]
    cluster.until(lambda: all(one.offsets.high_watermark(TopicPartition("t", 0)) == 1 for one in directories), 20_000)
    for number in (1, 2, 3):
        cluster.kill(number)
        cluster.machines[number].disk.lose_unsynced()
    for _ in range(2):
        for number in (1, 2, 3):
            cluster.start(number)
        for number in (1, 2, 3):
            cluster.kill(number)
    for number in (1, 2, 3):
        cluster.start(number)
        assert not cluster.node(number).replicas.by_name["t", 0].log.damage
    cluster.until(lambda: len(one_topic.state(cluster).in_sync) == 3, 20_000)
    produce(cluster)


def test_a_log_of_a_topic_that_was_made_anew_meanwhile_is_not_taken_for_the_new_ones():
    cluster = SimCluster()
    cluster.create_topic(replicas=3)
    one_topic.until_placed(cluster, 1, 2, 3)
    produce(cluster)
    cluster.until(lambda: cluster.node(3).replicas.by_name[("t", 0)].log.end_offset == 1)
    machine = cluster.machines[3]
    cluster.kill(3)
    machine.set_coordination(CALM._replace(way_us=(300_000, 300_000)), cut=False)
    machine.start()
    cluster.until(lambda: cluster.node(3).replicas.directories.online)
    cluster.ask(1, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), most=6)
    cluster.create_topic(replicas=3)
    cluster.until(lambda: machine.serving is not None)
    assert cluster.node(3).replicas.by_name[("t", 0)].log.end_offset == 0
    assert [name for name in machine.disk.list("/data") if name.startswith("t-0.")]  # being deleted


def test_a7_a_replica_whose_disk_is_another_one_counts_no_more_until_it_holds_all_again():
    cluster = SimCluster()
    cluster.create_topic(replicas=3)
    one_topic.until_placed(cluster, 1, 2, 3)
    produce(cluster)
    leader = one_topic.state(cluster).leader
    machine = cluster.machines[leader]
    cluster.kill(leader)
    machine.lose_disk()
    machine.start()
    cluster.until(lambda: machine.serving is not None)
    state = one_topic.state(cluster, leader)
    assert leader not in state.in_sync
    assert state.leader != leader

    def in_sync_again() -> bool:
        return leader in one_topic.state(cluster, leader).in_sync

    cluster.until(in_sync_again)
    assert cluster.node(leader).replicas.by_name[("t", 0)].log.synced_offset == 1


def test_the_last_replica_in_sync_stays_so_though_its_disk_is_another_one():
    cluster = SimCluster(1)
    cluster.create_topic()
    machine = cluster.machines[1]
    cluster.kill(1)
    machine.lose_disk()
    machine.start()
    cluster.until(lambda: machine.serving is not None)
    state = one_topic.state(cluster)
    assert (state.in_sync, state.leader) == ((1,), 1)


def test_a_replica_whose_disk_is_another_one_does_not_lead_though_it_was_the_last_in_sync():
    """The other replica is behind, but has records that an empty leader would cut off: an administrator must decide."""
    cluster = SimCluster(2)
    cluster.create_topic(replicas=2)
    one_topic.until_placed(cluster, 1, 2)
    produce(cluster)
    cluster.until(lambda: cluster.node(2).replicas.by_name[("t", 0)].log.high_watermark == 1)
    cluster.kill(2)
    cluster.until(lambda: one_topic.state(cluster).in_sync == (1,))
    produce(cluster)
    cluster.kill(1)
    cluster.start(2)
    machine = cluster.machines[1]
    machine.lose_disk()
    cluster.start(1)
    cluster.loop.run_for(2000)
    state = one_topic.state(cluster)
    assert (state.in_sync, state.leader) == ((), NO_LEADER)
    assert cluster.node(2).replicas.by_name[("t", 0)].log.end_offset == 1


def test_a_replica_does_not_lead_from_a_disk_that_was_away_while_it_was_built_anew_on_another():
    """The broker came up on an empty disk and was in sync again; then the old disk, which was mounted late, is back."""
    cluster = SimCluster(2)
    cluster.create_topic(replicas=2)
    one_topic.until_placed(cluster, 1, 2)
    produce(cluster)
    cluster.until(lambda: all(cluster.node(each).replicas.by_name[("t", 0)].log.end_offset == 1 for each in (1, 2)))
    machine = cluster.machines[1]
    cluster.kill(1)
    away = machine.disk
    cluster.until(lambda: one_topic.state(cluster, 2).in_sync == (2,))
    machine.lose_disk()
    cluster.start(1)
    cluster.until(lambda: set(one_topic.state(cluster).in_sync) == {1, 2}, 60_000)
    produce(cluster)
    cluster.until(lambda: all(cluster.node(each).replicas.by_name[("t", 0)].log.end_offset == 2 for each in (1, 2)))
    cluster.kill(2)
    cluster.until(lambda: one_topic.state(cluster).in_sync == (1,))
    cluster.kill(1)
    machine.disk = away
    cluster.start(2)
    cluster.start(1)
    cluster.loop.run_for(2000)
    state = one_topic.state(cluster)
    assert (state.in_sync, state.leader) == ((), NO_LEADER)
    assert cluster.node(2).replicas.by_name[("t", 0)].log.end_offset == 2


@pytest.mark.parametrize("replaced", ["the disk", "the id"])
def test_a_log_directory_that_is_another_one_than_the_cluster_knows_is_said(replaced, caplog):
    cluster = SimCluster()
    cluster.create_topic(replicas=3)
    one_topic.until_placed(cluster, 1, 2, 3)
    produce(cluster)
    cluster.kill(2)
    disk, path = cluster.machines[2].disk, "/data/meta.properties"
    if replaced == "the disk":
        disk.replace("/data")
    else:
        body = disk.read(path).replace(b"directory.id=", b"directory.id=x")
        disk.remove(path)
        disk.open(path, create=True).write_at(0, [body])
    with caplog.at_level(logging.WARNING):
        cluster.start(2)
    (line,) = [record.getMessage() for record in caplog.records if "is new" in record.getMessage()]
    why = "it holds no replicas yet" if replaced == "the disk" else "its meta.properties has another directory.id"
    assert f"the log directory /data is new: {why}, and one that this broker had is missing. 1 replicas" in line
    cluster.until(lambda: len(one_topic.state(cluster).in_sync) == 3, 60_000)
    caplog.clear()
    cluster.kill(2)
    cluster.start(2)
    assert not [record for record in caplog.records if "is new" in record.getMessage()], "it is known by now"
