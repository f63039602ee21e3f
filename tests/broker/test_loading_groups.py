"""A coordinator that still loads its groups answers with errors after which clients go on."""

from __future__ import annotations

from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import run_story
from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

OFFSETS = "__consumer_offsets"
WITHOUT_AN_ID = 3
"""The last version of JoinGroup in which a member joins at once, without an id."""


class Scene(SimCluster):
    """A group `g` in one partition of three replicas."""

    def __init__(self):
        super().__init__(3, offsets_topic_num_partitions="1", group_initial_rebalance_delay_ms="0")
        self.ask(1, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        self.until(lambda: self.state() is not None and len(self.state().in_sync) == 3)
        self.coordinator = self.state().leader
        self.until(lambda: len(self.node(self.coordinator).groups.shards()) == 1)

    def state(self):
        topic = self.node(1).metadata.topic(OFFSETS)
        return None if topic is None else topic.partitions[0]

    def join(self, member_id=""):
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        return self.ask(self.coordinator, request, most=WITHOUT_AN_ID)

    def a_sync(self, joined):
        assigned = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")]
        return SyncGroupRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=assigned
        )

    def sync(self, joined):
        return self.ask(self.coordinator, self.a_sync(joined), most=3)

    def commits_nothing(self):
        for other in self.others(self.coordinator):
            self.network.block(f"broker-{other}", f"broker-{self.coordinator}")

    def loads_anew(self):
        """Remove a replica, so that the same leader begins a new epoch and loads again."""
        kept = [self.coordinator, self.others(self.coordinator)[0]]
        partition = ReassignablePartition(partition_index=0, replicas=kept)
        topics = [ReassignableTopic(name=OFFSETS, partitions=[partition])]
        self.ask(self.coordinator, AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=5000))
        self.until(lambda: self.node(self.coordinator).groups.loading)


def test_who_brings_its_assignment_to_a_coordinator_that_loads_is_told_to_join_again():
    """Java's consumers treat COORDINATOR_LOAD_IN_PROGRESS from SyncGroup as fatal, so SyncGroup must not answer so."""
    scene = Scene()
    joined = scene.join()
    assert joined.error_code == ErrorCode.NONE
    scene.commits_nothing()
    given_up = run_story(scene.peer(scene.coordinator).ask(scene.a_sync(joined), most=3))
    scene.loop.run_for(50)  # by now its entry is in the log, and loading waits until that is committed
    scene.loads_anew()
    assert scene.end_of(given_up).error_code == ErrorCode.NOT_COORDINATOR
    assert scene.sync(joined).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.join(joined.member_id).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    scene.network.unblock_all()
    scene.until(lambda: not scene.node(scene.coordinator).groups.loading)
    again = scene.join(joined.member_id)
    assert scene.sync(again).assignment == b"all"
