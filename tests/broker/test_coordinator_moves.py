"""A deposed coordinator is alive and does not know it yet: no group reads an older offset than it had acknowledged."""

from __future__ import annotations

import pytest
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import run_story
from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.messages.unregister_broker import UnregisterBrokerRequest
from ottla.sim.coordination import CoordinationFaults

OFFSETS = "__consumer_offsets"
SESSION_MS = 6000
LEASE_MS = 4000
SLOW_MS = 500
SLOW_STORE = CoordinationFaults(way_us=(SLOW_MS * 1000, SLOW_MS * 1000), patience_us=10_000_000)
"""A request to the store takes this long, and so does its answer."""
PREFERRED = 0
BY_NAME = 9


class Scene(SimCluster):
    """A group `g` whose offsets are in one partition of three replicas; `old` coordinates it, as preferred."""

    def __init__(self, brokers: int = 3, **options: str) -> None:
        super().__init__(brokers, session_ms=SESSION_MS, offsets_topic_num_partitions="1", **options)
        self.create_topic(replicas=3)
        self.ask(1, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        self.until(lambda: self.state(1) is not None and self.state(1).has_leader)
        self.old = self.state(1).leader
        self.until(lambda: self.commit(self.old, 1) == ErrorCode.NONE)

    def state(self, seen_by):
        topic = self.node(seen_by).metadata.topic(OFFSETS)
        return None if topic is None else topic.partitions[0]

    def commit(self, broker, offset):
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name="t", partitions=[place])]
        request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)
        return self.ask(broker, request, most=BY_NAME).topics[0].partitions[0].error_code

    def committed(self, broker):
        """The committed offset by a broker's answer; None if it does not coordinate the group or no longer answers."""
        groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
        answer = self.ask(broker, OffsetFetchRequest(groups=groups), most=BY_NAME)
        if answer is None:
            return None
        told = answer.groups[0]
        return None if told.error_code else told.topics[0].partitions[0].committed_offset

    def hears_slowly(self, broker):
        self.machines[broker].set_coordination(SLOW_STORE, cut=False)

    def cut_off(self, broker, *, cut=True):
        """Cut a broker off from the store only: it reads no entries, and answers while its lease is valid."""
        self.machines[broker].set_coordination(self.machines[broker].coordination_faults, cut=cut)

    def moved_as_seen_by(self, broker):
        self.until(lambda: self.state(broker).leader != self.old)
        return self.state(broker).leader


def test_who_drains_answers_no_group_from_before_others_may_know_that_it_does_not_coordinate_it():
    scene = Scene()
    scene.hears_slowly(scene.old)
    leaving = scene.node(scene.old).hand_over()
    new = scene.moved_as_seen_by(scene.others(scene.old)[0])
    scene.until(lambda: scene.commit(new, 2) == ErrorCode.NONE)
    assert scene.state(scene.old).leader == scene.old, "it does not know yet"
    assert scene.committed(scene.old) is None
    scene.end_of(leaving)
    assert scene.committed(new) == 2


def test_who_cannot_hand_over_goes_on_coordinating_to_the_end():
    scene = Scene()
    for other in scene.others(scene.old):
        scene.kill(other)
    scene.until(lambda: scene.state(scene.old).in_sync == (scene.old,), SESSION_MS * 2)
    other = scene.others(scene.old)[0]
    scene.network.block(f"broker-{scene.old}", f"broker-{other}")
    scene.start(other)
    scene.until(lambda: scene.node(scene.old).metadata.is_active(other))
    scene.end_of(scene.node(scene.old).hand_over())
    assert scene.state(scene.old).leader == scene.old
    assert scene.node(scene.old).metadata.brokers[scene.old].draining
    scene.until(lambda: scene.committed(scene.old) == 1)


def reassigned(*replicas):
    """A request for a reassignment; without replicas it cancels the running one."""
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas) or None)
    topics = [ReassignableTopic(name=OFFSETS, partitions=[partition])]
    return AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=5000)


def test_a_coordinator_whose_replica_is_taken_away_lays_its_groups_down_before_it_says_so():
    scene = Scene(5)
    replicas = scene.state(1).replicas
    stays = next(each for each in replicas if each != scene.old)
    joins, last = (each for each in scene.machines if each not in replicas)
    for sender, receiver in ((last, scene.old), (scene.old, last)):
        scene.network.block(f"broker-{sender}", f"broker-{receiver}")
    answer = scene.ask(stays, reassigned(stays, joins, last))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    scene.until(lambda: joins in scene.state(scene.old).in_sync)
    scene.until(lambda: scene.committed(scene.old) == 1)
    scene.hears_slowly(scene.old)
    scene.network.unblock_all()
    new = scene.moved_as_seen_by(stays)
    scene.until(lambda: scene.commit(new, 2) == ErrorCode.NONE)
    assert scene.state(scene.old).leader == scene.old, "it does not know yet"
    assert scene.committed(scene.old) is None
    scene.until(lambda: scene.committed(new) == 2)


def test_a_coordinator_lays_its_groups_down_too_where_nobody_has_to_catch_up():
    scene = Scene()
    stay = scene.others(scene.old)
    scene.until(lambda: len(scene.state(1).in_sync) == 3)
    scene.hears_slowly(scene.old)
    answer = scene.ask(stay[0], reassigned(*stay))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    new = scene.moved_as_seen_by(stay[0])
    scene.until(lambda: scene.commit(new, 2) == ErrorCode.NONE)
    assert scene.state(scene.old).leader == scene.old, "it does not know yet"
    assert scene.committed(scene.old) is None
    scene.until(lambda: scene.committed(new) == 2)


def test_a_coordinator_that_is_unregistered_while_it_lives_is_waited_for_until_its_lease_is_over():
    scene = Scene()
    other = scene.others(scene.old)[0]
    scene.until(lambda: len(scene.state(other).in_sync) == 3)
    scene.hears_slowly(scene.old)
    assert scene.ask(other, UnregisterBrokerRequest(broker_id=scene.old)).error_code == ErrorCode.NONE
    new = scene.moved_as_seen_by(other)
    answers_as_before_until_another_commit_is_acknowledged(scene, new)


@pytest.mark.parametrize("then", ["redirected", "turned back", "cancelled"])
def test_a_coordinator_that_a_reassignment_had_added_is_waited_for_until_its_lease_is_over(then):
    scene = Scene(5, auto_leader_rebalance_enable="false")
    replicas = scene.state(1).replicas
    stays = next(each for each in replicas if each != scene.old)
    joins, last = (each for each in scene.machines if each not in replicas)
    for each in scene.others(last):
        scene.network.block(f"broker-{last}", f"broker-{each}")
        scene.network.block(f"broker-{each}", f"broker-{last}")
    answer = scene.ask(stays, reassigned(joins, stays, last))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    scene.until(lambda: joins in scene.state(stays).in_sync)
    topics = [TopicPartitions(topic=OFFSETS, partitions=[0])]
    elected = scene.ask(stays, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=topics, timeout_ms=5000))
    assert elected.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
    scene.until(lambda: scene.state(joins).leader == scene.state(stays).leader == joins)
    scene.old = joins
    scene.until(lambda: scene.commit(joins, 1) == ErrorCode.NONE)
    scene.hears_slowly(joins)
    aim = {"redirected": (stays, scene.state(stays).replicas[-1], last), "turned back": replicas, "cancelled": ()}[then]
    answer = scene.ask(stays, reassigned(*aim))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    new = scene.moved_as_seen_by(stays)
    answers_as_before_until_another_commit_is_acknowledged(scene, new)


def answers_as_before_until_another_commit_is_acknowledged(scene, new):
    acknowledged = run_story(commit_until_it_is_acknowledged(scene, new, 2))
    while (told := scene.committed(scene.old)) is not None:
        assert told == 1 and not acknowledged.full
        scene.loop.run_for(20)
    scene.end_of(acknowledged)
    scene.until(lambda: scene.committed(new) == 2)


@pytest.mark.parametrize("lag_max_ms", ["1000", "30000"])
def test_a_deposed_coordinator_in_sync_is_waited_for_until_it_knows_or_its_lease_is_over(lag_max_ms):
    """This holds for any allowed lag: it could leave the in-sync set otherwise, and still answer."""
    scene = Scene(replica_lag_time_max_ms=lag_max_ms, auto_leader_rebalance_enable="false")
    first = scene.old
    other = scene.others(first)[0]
    scene.end_of(scene.node(first).hand_over())
    scene.old = scene.moved_as_seen_by(other)
    scene.kill(first)
    scene.until(lambda: scene.node(other).metadata.brokers[first].fenced, SESSION_MS * 2)
    scene.start(first)
    scene.until(lambda: first in scene.state(other).in_sync)
    scene.until(lambda: scene.commit(scene.old, 2) == ErrorCode.NONE)

    scene.cut_off(scene.old)
    topics = [TopicPartitions(topic=OFFSETS, partitions=[0])]
    elected = scene.ask(first, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=topics, timeout_ms=5000))
    assert elected.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
    assert scene.moved_as_seen_by(first) == first
    scene.until(lambda: scene.node(first).groups.loading is False)
    acknowledged = run_story(commit_until_it_is_acknowledged(scene, first, 3))
    looked = 0
    while (told := scene.committed(scene.old)) is not None:
        assert told == 2 and not acknowledged.full
        looked += 1
        scene.loop.run_for(20)
    assert looked > 10
    scene.cut_off(scene.old, cut=False)
    scene.end_of(acknowledged, 40_000)
    assert scene.committed(first) == 3


async def commit_until_it_is_acknowledged(scene, broker, offset):
    peer = scene.peer(broker, "committer")
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[place])]
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)
    while True:
        answer = await peer.ask(request, most=BY_NAME)
        if answer is not None and answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            return
