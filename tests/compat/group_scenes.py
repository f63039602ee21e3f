"""Scenes for a broker of ours and for Apache Kafka: the requests of group clients in their order."""

from __future__ import annotations

import time
from collections.abc import Callable

from group_dialogue import Dialogue, Wire

from ottla.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.messages.delete_groups import DeleteGroupsRequest
from ottla.messages.describe_groups import DescribeGroupsRequest
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.messages.list_groups import ListGroupsRequest
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.messages.sync_group import SyncGroupRequest

Scene = Callable[[Dialogue], None]
SCENES: list[Scene] = []


def scene(play: Scene) -> Scene:
    SCENES.append(play)
    return play


def describe(talk: Dialogue, wire: Wire, version: int = 6) -> None:
    talk.ask(
        "described", wire, version, DescribeGroupsRequest(groups=[talk.group], include_authorized_operations=False)
    )


def describe_as_consumer_group(talk: Dialogue, wire: Wire) -> None:
    request = ConsumerGroupDescribeRequest(group_ids=[talk.group], include_authorized_operations=False)
    talk.ask("described as a consumer group", wire, 1, request)


def commit(talk: Dialogue, offset: int = 5, topic: str = "t", partition: int = 0, **options) -> OffsetCommitRequest:
    asked = OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=options.pop("epoch", -1),
        committed_metadata=options.pop("metadata", "note"),
    )
    topics = [OffsetCommitRequestTopic(name=topic, topic_id=options.pop("topic_id", bytes(16)), partitions=[asked])]
    return OffsetCommitRequest(group_id=talk.group, topics=topics, **options)


def stable(talk: Dialogue, **options) -> tuple[Wire, str]:
    wire = talk.wire()
    member = talk.joined(wire, **options).member_id
    talk.ask("assigned", wire, 5, talk.sync(member, 1, {member: b"mine"}))
    return wire, member


@scene
def joining_in_every_version(talk: Dialogue):
    for version in range(10):
        wire = talk.wire()
        answer = talk.ask(f"join {version}", wire, version, talk.join())
        if answer.error_code:
            answer = talk.ask(f"join {version} again", wire, version, talk.join(answer.member_id))
        talk.ask("heartbeat", wire, 4, talk.heartbeat(answer.member_id, answer.generation_id))
        talk.ask("leave", wire, 4, talk.leave(MemberIdentity(member_id=answer.member_id)))
        describe(talk, wire)


@scene
def syncing_in_every_version(talk: Dialogue):
    wire = talk.wire()
    answer = talk.joined(wire)
    for version in range(6):
        given = {answer.member_id: b"mine"} if version == 0 else {}
        talk.ask(f"sync {version}", wire, version, talk.sync(answer.member_id, 1, given))
    talk.ask("no type", wire, 5, talk.sync(answer.member_id, 1, protocol_type=None))
    talk.ask("other type", wire, 5, talk.sync(answer.member_id, 1, protocol_type="connect"))
    talk.ask("other name", wire, 5, talk.sync(answer.member_id, 1, protocol_name="sticky"))
    talk.ask("other generation", wire, 5, talk.sync(answer.member_id, 7))
    talk.ask("other member", wire, 5, talk.sync("nobody", 1))


@scene
def heartbeats_and_leaving_in_every_version(talk: Dialogue):
    for version in range(5):
        wire = talk.wire()
        answer = talk.joined(wire)
        generation = answer.generation_id
        talk.ask(f"heartbeat {version}", wire, version, talk.heartbeat(answer.member_id, generation))
        talk.ask("wrong generation", wire, version, talk.heartbeat(answer.member_id, generation + 1))
        talk.ask("nobody", wire, version, talk.heartbeat("nobody", generation))
        request = talk.leave(MemberIdentity(member_id=answer.member_id), member_id=answer.member_id)
        talk.ask(f"leave {version}", wire, version, request)
        talk.ask(f"leave {version} twice", wire, version, request)
        talk.ask("heartbeat after", wire, version, talk.heartbeat(answer.member_id, generation))


@scene
def a_group_without_a_name(talk: Dialogue):
    wire = talk.wire()
    join = talk.join()
    join.group_id = ""
    talk.ask("join", wire, 9, join)
    talk.ask("join", wire, 2, join)
    talk.ask("sync", wire, 5, SyncGroupRequest(protocol_type="consumer", protocol_name="range"))
    talk.ask("heartbeat", wire, 4, HeartbeatRequest())
    talk.ask("leave", wire, 5, LeaveGroupRequest(members=[MemberIdentity(member_id="m")]))
    talk.ask("leave", wire, 1, LeaveGroupRequest(member_id="m"))
    talk.ask("describe", wire, 6, DescribeGroupsRequest(groups=[""]))
    talk.ask("delete", wire, 2, DeleteGroupsRequest(groups_names=[""]))
    request = commit(talk)
    request.group_id = ""
    talk.ask("commit", wire, 9, request)
    talk.ask("fetch", wire, 8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(topics=None)]))
    talk.ask("delete offsets", wire, 0, OffsetDeleteRequest(group_id="", topics=[_deleted("t", 0)]))
    talk.ask("delete", wire, 2, DeleteGroupsRequest(groups_names=[""]))


@scene
def a_group_that_is_not_there(talk: Dialogue):
    wire = talk.wire()
    talk.ask("join", wire, 9, talk.join("nobody"))
    talk.ask("sync", wire, 5, talk.sync("nobody", 1))
    talk.ask("heartbeat", wire, 4, talk.heartbeat("nobody", 1))
    for version in range(6):
        talk.ask("leave", wire, version, talk.leave(MemberIdentity(member_id="nobody"), member_id="nobody"))
    for version in range(7):
        describe(talk, wire, version)
    talk.ask("delete", wire, 2, DeleteGroupsRequest(groups_names=[talk.group, talk.group]))
    for version in range(2, 10):
        talk.ask("commit", wire, version, commit(talk, member_id="nobody", generation_id_or_member_epoch=1))
    talk.ask("delete offsets", wire, 0, OffsetDeleteRequest(group_id=talk.group, topics=[_deleted("t", 0)]))


@scene
def a_consumer_group_that_is_not_there(talk: Dialogue):
    """KIP-848's APIs about no group, and about a group of the classic protocol."""
    wire = talk.wire()
    for epoch in (1, -1):
        beat = ConsumerGroupHeartbeatRequest(group_id=talk.group, member_id="m", member_epoch=epoch)
        talk.ask(f"heartbeat {epoch}", wire, 1, beat)
    describe_as_consumer_group(talk, wire)
    stable(talk)
    describe_as_consumer_group(talk, wire)


@scene
def what_a_first_join_must_say(talk: Dialogue):
    wire = talk.wire()
    talk.ask("short session", wire, 9, talk.join(session_timeout_ms=299))
    talk.ask("long session", wire, 9, talk.join(session_timeout_ms=1_800_001))
    talk.ask("no protocols", wire, 9, talk.join(protocols=()))
    talk.ask("no type", wire, 9, talk.join(protocol_type=""))
    talk.ask("no protocols, old", wire, 1, talk.join(protocols=()))


@scene
def members_that_do_not_fit(talk: Dialogue):
    _, member = stable(talk, protocols=("range", "sticky"))
    wire = talk.wire()
    talk.ask("other type", wire, 9, talk.join(protocol_type="connect"))
    talk.ask("other protocol", wire, 9, talk.join(protocols=("other",)))
    talk.ask("stranger", wire, 9, talk.join("stranger"))
    talk.ask("known, other protocol", wire, 9, talk.join(member, protocols=("other",)))
    describe(talk, wire)


@scene
def two_members_and_a_rebalance(talk: Dialogue):
    first, leader = stable(talk)
    second = talk.wire("app2")
    wanted = talk.ask("id wanted", second, 9, talk.join())
    second.tell(9, talk.join(wanted.member_id))
    third = talk.wire()
    _until(lambda: third.ask(4, talk.heartbeat(leader, 1)).error_code == 27)
    describe(talk, third)
    talk.ask("sync while preparing", third, 5, talk.sync(leader, 1))
    talk.ask("commit while preparing", third, 9, commit(talk, member_id=leader, generation_id_or_member_epoch=1))
    talk.ask("commit from outside", third, 9, commit(talk))
    answer = talk.ask("leader joins", first, 9, talk.join(leader))
    talk.note("follower joined", second.hear())
    describe(talk, third)
    talk.ask("heartbeat while completing", third, 4, talk.heartbeat(leader, 2))
    request = commit(talk, member_id=leader, generation_id_or_member_epoch=2)
    talk.ask("commit while completing", third, 9, request)
    talk.ask("join again unchanged", third, 9, talk.join(wanted.member_id))
    second.tell(5, talk.sync(wanted.member_id, 2))
    given = {leader: b"l", wanted.member_id: b"f"}
    talk.ask("leader assigned", first, 5, talk.sync(leader, answer.generation_id, given))
    talk.note("follower assigned", second.hear())
    describe(talk, third)
    talk.ask("follower joins unchanged", third, 9, talk.join(wanted.member_id))
    talk.ask("follower syncs again", third, 5, talk.sync(wanted.member_id, 2))
    talk.ask("follower leaves", third, 5, talk.leave(MemberIdentity(member_id=wanted.member_id, reason="bye")))
    talk.ask("leader told", third, 4, talk.heartbeat(leader, 2))
    talk.ask("leader alone", first, 9, talk.join(leader))


@scene
def a_static_member_that_restarts(talk: Dialogue):
    wire = talk.wire()
    first = talk.ask("joined", wire, 9, talk.join(group_instance_id="one"))
    talk.ask("assigned", wire, 5, talk.sync(first.member_id, 1, {first.member_id: b"mine"}, group_instance_id="one"))
    for version in (5, 6, 7, 8, 9):
        old = first
        first = talk.ask(f"restarted {version}", wire, version, talk.join(group_instance_id="one"))
        talk.ask("assigned", wire, 5, talk.sync(first.member_id, 1, group_instance_id="one"))
        fenced = {"group_instance_id": "one"}
        talk.ask("old heartbeat", wire, 4, talk.heartbeat(old.member_id, 1, **fenced))
        talk.ask("old sync", wire, 5, talk.sync(old.member_id, 1, **fenced))
        talk.ask("old join", wire, 9, talk.join(old.member_id, **fenced))
        talk.ask("old leave", wire, 5, talk.leave(MemberIdentity(member_id=old.member_id, **fenced)))
        old_commit = commit(talk, member_id=old.member_id, generation_id_or_member_epoch=1, **fenced)
        talk.ask("old commit", wire, 9, old_commit)
        describe(talk, wire)
    talk.ask("other instance", wire, 4, talk.heartbeat(first.member_id, 1, group_instance_id="two"))
    talk.ask("leave by instance", wire, 5, talk.leave(MemberIdentity(group_instance_id="one")))
    talk.ask("leave unknown", wire, 5, talk.leave(MemberIdentity(group_instance_id="two"), MemberIdentity()))
    describe(talk, wire)


@scene
def a_static_member_that_chooses_otherwise(talk: Dialogue):
    wire = talk.wire()
    both = ("range", "sticky")
    first = talk.ask("joined", wire, 9, talk.join(group_instance_id="one", protocols=both))
    talk.ask("assigned", wire, 5, talk.sync(first.member_id, 1, {first.member_id: b"mine"}, group_instance_id="one"))
    same = talk.join(group_instance_id="one", protocols=both, metadata=b"\0\0changed")
    talk.ask("changed metadata", wire, 9, same)
    talk.ask("changed protocol", wire, 9, talk.join(group_instance_id="one", protocols=("sticky",)))
    describe(talk, wire)


@scene
def more_members_than_the_group_takes(talk: Dialogue):
    first, one = stable(talk)
    second, third, late = talk.wire(), talk.wire(), talk.wire()
    two = talk.ask("second wanted", second, 9, talk.join()).member_id
    second.tell(9, talk.join(two))
    _until(lambda: late.ask(4, talk.heartbeat(one, 1)).error_code == 27)
    talk.ask("first again", first, 9, talk.join(one))
    talk.note("second", second.hear())
    three = talk.ask("third wanted", third, 9, talk.join()).member_id
    third.tell(9, talk.join(three))
    _until(lambda: late.ask(4, talk.heartbeat(one, 2)).error_code == 27)
    first.tell(9, talk.join(one))
    second.tell(9, talk.join(two))
    for name, wire in (("first", first), ("second", second), ("third", third)):
        talk.note(name, wire.hear())
    talk.ask("one too many", late, 9, talk.join())
    talk.ask("one too many, of old", late, 3, talk.join())
    talk.ask("one too many, static", late, 9, talk.join(group_instance_id="one"))
    talk.ask("member as before", late, 9, talk.join(two))


@scene
def a_member_that_falls_silent(talk: Dialogue):
    wire, member = stable(talk, session_timeout_ms=2000)
    _until(lambda: _state(talk, wire) == "Empty")
    talk.ask("heartbeat", wire, 4, talk.heartbeat(member, 1))
    describe(talk, wire)
    talk.ask("commit from outside", wire, 9, commit(talk))


@scene
def a_promised_id_that_is_never_used(talk: Dialogue):
    wire = talk.wire()
    promised = talk.ask("promised", wire, 9, talk.join(session_timeout_ms=400)).member_id
    talk.ask("heartbeat", wire, 4, talk.heartbeat(promised, 0))
    talk.ask("given back", wire, 5, talk.leave(MemberIdentity(member_id=promised)))
    talk.ask("used after that", wire, 9, talk.join(promised))
    promised = talk.ask("promised", wire, 9, talk.join(session_timeout_ms=400)).member_id
    time.sleep(0.9)
    talk.ask("used too late", wire, 9, talk.join(promised))


@scene
def a_member_that_never_syncs(talk: Dialogue):
    wire = talk.wire()
    answer = talk.joined(wire, rebalance_timeout_ms=500)
    _until(lambda: _state(talk, wire) == "Empty")
    talk.ask("heartbeat", wire, 4, talk.heartbeat(answer.member_id, 1))
    describe(talk, wire)


@scene
def committing_in_every_version(talk: Dialogue):
    wire = talk.wire()
    ids = _topic_ids(talk, wire)
    for version in range(2, 11):
        by_id = {"topic_id": ids["t"]} if version >= 10 else {}
        talk.ask(f"commit {version}", wire, version, commit(talk, 100 + version, epoch=3, **by_id)).topics.clear()
        talk.ask("read back", wire, 9, _fetch_all(talk))


@scene
def commits_that_are_refused(talk: Dialogue):
    wire = talk.wire()
    talk.ask("unknown topic", wire, 9, commit(talk, topic="nothing"))
    talk.ask("unknown partition", wire, 9, commit(talk, partition=2))
    talk.ask("negative partition", wire, 9, commit(talk, partition=-1))
    talk.ask("unknown id", wire, 10, commit(talk, topic_id=b"x" * 16))
    talk.ask("long note", wire, 9, commit(talk, metadata="123456789"))
    talk.ask("note of just that length", wire, 9, commit(talk, metadata="12345678"))
    talk.ask("null note", wire, 9, commit(talk, metadata=None))
    talk.ask("negative offset", wire, 9, commit(talk, offset=-1))
    mixed = commit(talk, partition=1)
    mixed.topics += commit(talk, topic="nothing").topics + commit(talk, partition=9).topics
    talk.ask("mixed", wire, 9, mixed)
    talk.ask("nothing at all", wire, 9, OffsetCommitRequest(group_id=talk.group))
    talk.ask("read back", wire, 9, _fetch_all(talk))


@scene
def commits_of_members(talk: Dialogue):
    wire, member = stable(talk)
    talk.ask("mine", wire, 9, commit(talk, member_id=member, generation_id_or_member_epoch=1))
    talk.ask("old generation", wire, 9, commit(talk, member_id=member, generation_id_or_member_epoch=0))
    talk.ask("no generation", wire, 9, commit(talk, member_id=member))
    talk.ask("nobody", wire, 9, commit(talk, member_id="nobody", generation_id_or_member_epoch=1))
    talk.ask("no member", wire, 9, commit(talk, generation_id_or_member_epoch=1))
    talk.ask("from outside", wire, 9, commit(talk))
    stranger = commit(talk, member_id=member, generation_id_or_member_epoch=1, group_instance_id="one")
    talk.ask("unknown instance", wire, 9, stranger)


@scene
def fetching_in_every_version(talk: Dialogue):
    wire = talk.wire()
    ids = _topic_ids(talk, wire)
    wire.ask(9, commit(talk, 7, epoch=2))
    wire.ask(9, commit(talk, 8, topic="u", partition=1))
    for version in range(1, 8):
        some = [
            OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1, 9]),
            OffsetFetchRequestTopic(name="x", partition_indexes=[0]),
        ]
        talk.ask(f"fetch {version}", wire, version, OffsetFetchRequest(group_id=talk.group, topics=some))
        if version >= 2:
            talk.ask(f"all {version}", wire, version, OffsetFetchRequest(group_id=talk.group, topics=None))
        talk.ask(f"none {version}", wire, version, OffsetFetchRequest(group_id=talk.group, topics=[]))
        talk.ask("unknown group", wire, version, OffsetFetchRequest(group_id="unknown-" + talk.group, topics=some))
    for version in (8, 9):
        asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
        groups = [
            OffsetFetchRequestGroup(group_id=talk.group, topics=asked),
            OffsetFetchRequestGroup(group_id="unknown-" + talk.group, topics=asked),
            OffsetFetchRequestGroup(group_id="none-" + talk.group, topics=None),
        ]
        talk.ask(f"groups {version}", wire, version, OffsetFetchRequest(groups=groups, require_stable=True))
        talk.ask(f"all {version}", wire, version, _fetch_all(talk))
    known = OffsetFetchRequestTopics(topic_id=ids["t"], partition_indexes=[0])
    unknown = OffsetFetchRequestTopics(topic_id=b"x" * 16, partition_indexes=[0, 1])
    asked_10 = OffsetFetchRequestGroup(group_id=talk.group, topics=[known, unknown])
    talk.ask("by id", wire, 10, OffsetFetchRequest(groups=[asked_10]))
    talk.ask("all by id", wire, 10, _fetch_all(talk))


@scene
def listing_groups(talk: Dialogue):
    wire, _ = stable(talk)
    for version in range(6):
        talk.said.append(f"list {version}: {_listed(talk, wire, version)}")
    for states in (["Stable"], ["stable", "EMPTY"], ["Empty"], ["nonsense"]):
        talk.said.append(f"list {states}: {_listed(talk, wire, 5, states_filter=states)}")
    for types in (["classic"], ["CLASSIC", "consumer"], ["consumer"], ["nonsense"]):
        talk.said.append(f"list {types}: {_listed(talk, wire, 5, types_filter=types)}")


@scene
def describing_in_every_version(talk: Dialogue):
    wire, _ = stable(talk)
    for version in range(7):
        describe(talk, wire, version)
    request = DescribeGroupsRequest(groups=[talk.group, "unknown-" + talk.group], include_authorized_operations=True)
    talk.ask("with operations", wire, 5, request)


@scene
def deleting_groups_and_offsets(talk: Dialogue):
    wire, member = stable(talk)
    wire.ask(9, commit(talk, member_id=member, generation_id_or_member_epoch=1))
    wire.ask(9, commit(talk, topic="u", member_id=member, generation_id_or_member_epoch=1))
    for version in range(3):
        talk.ask("too early", wire, version, DeleteGroupsRequest(groups_names=[talk.group, "unknown-" + talk.group]))
    asked = [_deleted("t", 0, 1), _deleted("u", 0, 1, 7), _deleted("nothing", 0)]
    talk.ask("delete offsets", wire, 0, OffsetDeleteRequest(group_id=talk.group, topics=asked))
    talk.ask("left", wire, 9, _fetch_all(talk))
    wire.ask(5, talk.leave(MemberIdentity(member_id=member)))
    talk.ask("delete offsets of an empty group", wire, 0, OffsetDeleteRequest(group_id=talk.group, topics=asked))
    talk.ask("left", wire, 9, _fetch_all(talk))
    describe(talk, wire)
    talk.ask("delete", wire, 2, DeleteGroupsRequest(groups_names=[talk.group]))
    describe(talk, wire)
    talk.ask("delete again", wire, 2, DeleteGroupsRequest(groups_names=[talk.group]))


@scene
def a_group_of_another_kind(talk: Dialogue):
    wire = talk.wire()
    answer = talk.joined(wire, protocol_type="connect", metadata=b"\xff")
    request = talk.sync(answer.member_id, 1, {answer.member_id: b"mine"}, protocol_type="connect")
    talk.ask("assigned", wire, 5, request)
    talk.ask("delete offsets", wire, 0, OffsetDeleteRequest(group_id=talk.group, topics=[_deleted("t", 0)]))
    describe(talk, wire)


@scene
def finding_coordinators(talk: Dialogue):
    wire = talk.wire()
    for version in range(4):
        talk.ask(f"find {version}", wire, version, FindCoordinatorRequest(key=talk.group))
    for version in range(4, 7):
        request = FindCoordinatorRequest(coordinator_keys=[talk.group, talk.group + "x"])
        talk.ask(f"find {version}", wire, version, request)
    talk.ask(
        "share, too old", wire, 5, FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"])
    )


# What scenes share


def _deleted(topic: str, *partitions: int) -> OffsetDeleteRequestTopic:
    return OffsetDeleteRequestTopic(
        name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    )


def _fetch_all(talk: Dialogue) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=talk.group, topics=None)])


def _listed(talk: Dialogue, wire: Wire, version: int, **filters: list[str]) -> list[str]:
    """The scene's own group in ListGroups, without those of other scenes."""
    answer = wire.ask(version, ListGroupsRequest(**filters))
    own = [each for each in answer.groups if each.group_id == talk.group]
    return [f"{each.protocol_type} {each.group_state} {each.group_type}" for each in own]


def _topic_ids(talk: Dialogue, wire: Wire) -> dict[str, bytes]:
    answer = wire.ask(12, MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in "tu"]))
    ids = {topic.name: topic.topic_id for topic in answer.topics}
    talk.names.update({repr(topic_id): f"<id of {name}>" for name, topic_id in ids.items()})
    return ids


def _state(talk: Dialogue, wire: Wire) -> str:
    """The group's state, asked for without a note in the transcript."""
    asked = DescribeGroupsRequest(groups=[talk.group], include_authorized_operations=False)
    return wire.ask(6, asked).groups[0].group_state


def _until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)
