"""A leader tells a follower each change once: a follower whose answer was lost must ask anew."""

from __future__ import annotations

from one_topic import create, produce, reassign
from plain_requests import a_deletion_of_records
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode

LEADER, FOLLOWER = 1, 2


class Scene(SimCluster):
    """Broker 1 leads; after two topics were made, both connections for broker 2's fetches are open."""

    def create(self, name, *replicas, settle_ms=1000, **configs):
        create(self, *replicas, topic=name, **configs)
        self.loop.run_for(settle_ms)

    def produce(self, name, leader=LEADER):
        produce(self, leader, topic=name)

    def reassign(self, name, *replicas):
        reassign(self, *replicas, topic=name)

    def replica(self, number, name):
        return self.node(number).replicas.by_name[name, 0]

    def committed(self, number, name):
        return self.replica(number, name).log.high_watermark

    def in_sync(self, name):
        return self.node(FOLLOWER).metadata.topic(name).partitions[0].in_sync

    def hears_nothing(self):
        self.network.block(f"broker-{LEADER}", f"broker-{FOLLOWER}")

    def is_busy(self, name):
        """Keep the follower from fetching: it is still syncing a record of this topic."""
        self.machines[FOLLOWER].set_sync_us((900_000, 900_000))
        self.produce(name)
        self.until(lambda: self.replica(FOLLOWER, name).log.end_offset == 1)


def test_who_follows_the_same_leader_in_a_new_epoch_hears_from_it_though_nothing_has_changed():
    """Otherwise it would never know that its log agrees, and send back every consumer that is sent to it."""
    scene = Scene(3)
    scene.create("t", 1, 2, 3, unclean_leader_election_enable="true")
    scene.create("u", 1, 2, 3)
    scene.produce("t")
    scene.until(lambda: scene.committed(FOLLOWER, "t") == 1)
    scene.is_busy("u")
    scene.reassign("t", 1, 2)  # a replica is removed: the same leader, a new epoch
    scene.until(lambda: scene.replica(FOLLOWER, "t").follower.epoch == 1)
    assert not scene.replica(FOLLOWER, "t").follower.agreed
    scene.until(lambda: scene.replica(FOLLOWER, "t").follower.agreed, 3000)


def test_who_left_the_in_sync_set_while_an_answer_was_on_its_way_hears_again_what_is_deleted():
    """Otherwise it would not learn the leader's log start, and could not rejoin before the next write."""
    scene = Scene(2, min_insync_replicas="1", replica_lag_time_max_ms="1000")
    scene.create("t", 1, 2)
    scene.create("u", 1, 2)
    for _ in range(3):
        scene.produce("t")
    scene.until(lambda: scene.committed(FOLLOWER, "t") == 3)
    scene.loop.run_for(100)
    scene.hears_nothing()
    request = a_deletion_of_records(2)
    assert scene.ask(LEADER, request).topics[0].partitions[0].error_code == ErrorCode.NONE
    scene.until(lambda: scene.in_sync("t") == (LEADER,))
    scene.loop.run_for(300)
    scene.network.unblock_all()
    scene.until(lambda: scene.in_sync("t") == (LEADER, FOLLOWER))
    assert scene.replica(FOLLOWER, "t").log.log_start_offset == 2


def test_who_had_to_cut_its_log_back_hears_again_what_was_said_with_that():
    """Otherwise it would not learn the leader's log start, and could not rejoin before the next write."""
    scene = Scene(2, min_insync_replicas="1")
    scene.create("t", FOLLOWER, LEADER)  # broker 2 leads for now
    for _ in range(3):
        scene.produce("t", FOLLOWER)
    scene.until(lambda: scene.committed(LEADER, "t") == 3)
    scene.network.block(f"broker-{FOLLOWER}", f"broker-{LEADER}")
    scene.produce("t", FOLLOWER)
    scene.loop.run_for(100)
    scene.kill(FOLLOWER)
    scene.until(lambda: scene.replica(LEADER, "t").leader is not None)
    scene.network.unblock_all()
    request = a_deletion_of_records(2)
    assert scene.ask(LEADER, request).topics[0].partitions[0].error_code == ErrorCode.NONE
    scene.start(FOLLOWER)
    scene.until(lambda: scene.in_sync("t") == (FOLLOWER, LEADER), 5000)
    ours = scene.replica(FOLLOWER, "t").log
    assert (ours.log_start_offset, ours.end_offset) == (2, 3)


def test_who_took_the_answer_to_a_fetch_that_was_overtaken_hears_again_what_the_later_one_said():
    """Otherwise it would not learn the high watermark, although it is in sync, before the next write."""
    scene = Scene(2, min_insync_replicas="1")
    scene.create("t", 1)
    scene.create("u", 1, 2)
    scene.create("v", 1, 2)
    scene.produce("t")
    scene.until(lambda: scene.committed(LEADER, "t") == 1)
    scene.network.delay_us = (10, 10)
    scene.hears_nothing()
    scene.machines[LEADER].set_sync_us((400_000, 400_000))
    scene.produce("t")
    scene.reassign("t", 1, 2)
    scene.until(lambda: ("t", 0) in scene.node(FOLLOWER).replicas.by_name)
    scene.loop.run_for(5)
    assert scene.committed(LEADER, "t") == 1  # as in the first answer, which is under way
    scene.until(lambda: scene.committed(LEADER, "t") == 2)
    scene.create("w", 1, 2, settle_ms=20)  # the fetch that overtakes is answered with the same records
    assert scene.replica(FOLLOWER, "t").log.end_offset == 0
    scene.network.unblock_all()
    scene.until(lambda: scene.in_sync("t") == (LEADER, FOLLOWER))
    scene.until(lambda: scene.committed(FOLLOWER, "t") == 2, 3000)
