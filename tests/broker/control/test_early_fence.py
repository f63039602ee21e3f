"""Brokers that close their connections and refuse new ones, with a store that reports a death only after a session."""

from __future__ import annotations

import pytest
from plain_requests import a_produce
from sim_cluster import SimCluster

from ottla.broker.control.early_fence import KNOCK_TIMEOUT_MS
from ottla.cluster import brokers
from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import run_story
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

SESSION_MS = 6000
LEASE_MS = 4000
SOON_MS = 500


class Scene(SimCluster):
    """Three brokers with a topic of one partition; `leader` leads it, broker 1 has the lowest epoch."""

    def __init__(self) -> None:
        super().__init__(session_ms=SESSION_MS, min_insync_replicas="2")
        self.create_topic(partitions=3, replicas=3)
        self.loop.run_for(1000)

    def state(self, seen_by, index=0):
        return self.node(seen_by).metadata.topic("t").partitions[index]

    def led_by(self, broker):
        """The index of the partition that the broker leads."""
        return next(index for index in range(3) if self.state(broker, index).leader == broker)

    def is_fenced(self, broker, seen_by):
        return self.node(seen_by).metadata.brokers[broker].fenced

    def refuse(self, broker):
        """Make a broker refuse connections of other brokers while it is alive."""
        for other in self.others(broker):
            self.network.refuse(f"broker-{other}", f"broker-{broker}")

    def admit(self):
        self.network.admit_all()

    def produce(self, peer, index):
        return run_story(peer.ask(a_produce(partition=index, acks=-1, timeout_ms=2000), most=9))

    def error_of(self, slot):
        return self.end_of(slot).responses[0].partition_responses[0].error_code


@pytest.mark.parametrize("victim", [1, 2, 3])
def test_a_killed_leader_is_replaced_long_before_its_session_ends(victim):
    scene = Scene()
    index, (one, other) = scene.led_by(victim), scene.others(victim)
    scene.kill(victim)
    scene.until(lambda: scene.is_fenced(victim, one), SOON_MS)
    assert scene.node(one).metadata.brokers[victim].fenced_early
    assert scene.state(one, index).leader in (one, other)
    assert victim not in scene.state(one, index).in_sync
    peer = scene.peer(scene.state(one, index).leader)
    scene.loop.run_for(100)
    assert scene.error_of(scene.produce(peer, index)) == ErrorCode.NONE


def test_a_broker_that_cannot_be_reached_is_left_to_its_session():
    scene = Scene()
    for other in (1, 2):
        for way in ((f"broker-{other}", "broker-3"), ("broker-3", f"broker-{other}")):
            scene.network.block(*way)
    scene.network.cut_some(1.0)
    scene.loop.run_for(KNOCK_TIMEOUT_MS + SOON_MS)
    assert not scene.is_fenced(3, 1)


def test_a_broker_that_takes_connections_again_is_not_fenced():
    scene = Scene()
    scene.network.cut_some(1.0)
    scene.loop.run_for(SOON_MS)
    assert not any(scene.is_fenced(number, 1) for number in scene.machines)
    assert scene.node(1).doubts.settled() is None


def test_who_is_refused_by_more_than_half_fences_nobody():
    scene = Scene()
    for other in (1, 2):
        scene.network.refuse("broker-3", f"broker-{other}")
    scene.loop.run_for(KNOCK_TIMEOUT_MS + SOON_MS)
    assert not any(scene.is_fenced(number, 3) for number in scene.machines)


def test_a_broker_that_was_fenced_though_it_lives_acknowledges_nothing_and_comes_back():
    scene = Scene()
    index = scene.led_by(3)
    before = scene.node(3).metadata.brokers[3].epoch
    scene.machines[3].set_coordination(scene.machines[3].coordination_faults, cut=True)  # it cannot learn of its fence
    peer = scene.peer(3)
    assert scene.error_of(scene.produce(peer, index)) == ErrorCode.NONE
    scene.refuse(3)
    scene.until(lambda: scene.is_fenced(3, 1), SOON_MS)
    assert scene.node(3).around.may_lead(), "it does not know yet"
    late = scene.produce(peer, index)
    scene.loop.run_for(1000)
    assert not late.full
    scene.until(lambda: late.full, LEASE_MS)
    assert scene.error_of(late) != ErrorCode.NONE
    scene.admit()
    scene.machines[3].set_coordination(scene.machines[3].coordination_faults, cut=False)
    scene.until(lambda: not scene.is_fenced(3, 1) and sorted(scene.state(1, index).in_sync) == [1, 2, 3])
    assert scene.node(3).metadata.brokers[3].epoch == before


def fetched_at(scene, broker, group):
    """The error of a group's offsets, asked of one broker."""
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    return scene.ask(broker, asked).groups[0].error_code


def test_what_it_coordinated_is_not_answered_elsewhere_while_its_lease_may_stand():
    scene = Scene()
    found = scene.ask(1, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])).coordinators[0]
    scene.loop.run_for(1000)
    victim = found.node_id
    one = scene.others(victim)[0]
    assert fetched_at(scene, victim, "g") == ErrorCode.NONE
    scene.machines[victim].set_coordination(scene.machines[victim].coordination_faults, cut=True)
    scene.refuse(victim)
    scene.until(lambda: scene.is_fenced(victim, one), SOON_MS)
    began_ms = scene.loop.mono_ms()
    scene.loop.run_for(50)
    heir = scene.ask(one, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])).coordinators[0].node_id
    assert heir != victim
    assert fetched_at(scene, victim, "g") == ErrorCode.NONE, "it does not know yet"
    while (error := fetched_at(scene, heir, "g")) != ErrorCode.NONE:
        assert error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        scene.loop.run_for(20)
    assert not scene.node(victim).around.may_lead()
    assert LEASE_MS - 10 <= scene.loop.mono_ms() - began_ms < LEASE_MS + SOON_MS


def test_it_is_answered_at_once_when_the_fenced_broker_has_come_back_and_knows():
    scene = Scene()
    victim = scene.ask(1, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])).coordinators[0].node_id
    scene.loop.run_for(1000)
    one = scene.others(victim)[0]
    scene.kill(victim)
    scene.until(lambda: scene.is_fenced(victim, one), SOON_MS)
    scene.loop.run_for(50)
    heir = scene.ask(one, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])).coordinators[0].node_id
    assert fetched_at(scene, heir, "g") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    scene.start(victim)
    scene.loop.run_for(SOON_MS)
    assert fetched_at(scene, heir, "g") == ErrorCode.NONE


def test_a_broker_that_leaves_in_good_order_is_not_fenced_early():
    scene = Scene()
    scene.end_of(scene.machines[3].current.leave())
    scene.kill(3)
    scene.until(lambda: scene.is_fenced(3, 1), SESSION_MS * 2)
    assert not scene.node(1).metadata.brokers[3].fenced_early


def test_while_a_broker_of_an_older_release_is_left_deaths_wait_for_their_sessions(monkeypatch):
    """A broker of that release would answer at once for partitions that it takes over."""
    with monkeypatch.context() as older:
        older.setattr(brokers, "LATEST_METADATA_VERSION", brokers.FIRST_METADATA_VERSION)
        scene = Scene()
    for number in (1, 2):
        scene.end_of(scene.node(number).stop(clean=True))
        scene.kill(number)
        scene.start(number)
    scene.loop.run_for(1000)
    known = [scene.node(1).metadata.brokers[number].metadata_version for number in (1, 2, 3)]
    latest = brokers.LATEST_METADATA_VERSION
    assert known == [latest, latest, brokers.FIRST_METADATA_VERSION]
    scene.kill(2)
    scene.loop.run_for(SOON_MS)
    assert not scene.is_fenced(2, 1)
    scene.until(lambda: scene.is_fenced(2, 1), SESSION_MS)
    assert not scene.node(1).metadata.brokers[2].fenced_early

    scene.start(2)
    scene.end_of(scene.node(3).stop(clean=True))
    scene.kill(3)
    scene.start(3)
    scene.until(lambda: scene.node(1).metadata.metadata_version() >= brokers.EARLY_FENCES)
    scene.loop.run_for(1000)
    scene.kill(2)
    scene.until(lambda: scene.is_fenced(2, 1), SOON_MS)
    assert scene.node(1).metadata.brokers[2].fenced_early
