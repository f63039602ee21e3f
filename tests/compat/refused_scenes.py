"""Scenes of requests about groups and transactions that clients get wrong, played as those of groups are."""

from __future__ import annotations

from typing import Any

from group_dialogue import Dialogue, Wire
from group_scenes import Scene, commit, describe_as_consumer_group
from transactional_scenes import MEMBER, NOBODY, Writer, subscribed

from ottla.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.messages.describe_transactions import DescribeTransactionsRequest
from ottla.messages.end_txn import EndTxnRequest
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.messages.leave_group import MemberIdentity
from ottla.messages.offset_commit import OffsetCommitRequest
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

REFUSED_SCENES: list[Scene] = []


def scene(play: Scene) -> Scene:
    REFUSED_SCENES.append(play)
    return play


def _beat(talk: Dialogue, epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=talk.group, member_id=MEMBER, member_epoch=epoch)


@scene
def an_administrator_removes_a_member_of_a_consumer_group(talk: Dialogue):
    wire = talk.wire()
    epoch = subscribed(talk, wire, 0, "t").member_epoch
    for version in range(3):
        talk.ask(f"nobody leaves, version {version}", wire, version, talk.leave(member_id=NOBODY))
    left = talk.leave(MemberIdentity(member_id=MEMBER), MemberIdentity(member_id=NOBODY), MemberIdentity())
    talk.ask("leaves", wire, 5, left)
    talk.said.append(f"its heartbeat after that: {wire.ask(1, _beat(talk, epoch)).error_code}")
    talk.ask("leaves again", wire, 5, left)
    subscribed(talk, wire, 0, "t")
    talk.ask("leaves, version 1", wire, 1, talk.leave(member_id=MEMBER))
    talk.ask("leaves again, version 1", wire, 1, talk.leave(member_id=MEMBER))


@scene
def an_administrator_removes_a_static_member_of_a_consumer_group(talk: Dialogue):
    wire = talk.wire()
    subscribed(talk, wire, 0, "t", instance_id="one")
    other = MemberIdentity(member_id=NOBODY, group_instance_id="one")
    talk.ask("another member of that instance", wire, 5, talk.leave(other))
    talk.ask("another instance", wire, 5, talk.leave(MemberIdentity(member_id=MEMBER, group_instance_id="two")))
    talk.ask("another instance alone", wire, 5, talk.leave(MemberIdentity(group_instance_id="two")))
    talk.ask("the instance alone", wire, 5, talk.leave(MemberIdentity(group_instance_id="one")))
    talk.ask("again", wire, 5, talk.leave(MemberIdentity(group_instance_id="one")))
    subscribed(talk, wire, 0, "t", instance_id="one")
    talk.ask("both ids", wire, 5, talk.leave(MemberIdentity(member_id=MEMBER, group_instance_id="one")))


@scene
def a_consumer_group_with_a_member_is_described(talk: Dialogue):
    wire = talk.wire()
    found = subscribed(talk, wire, 0, "t").assignment
    assert found is not None
    talk.names[repr(found.topic_partitions[0].topic_id)] = "<id of t>"
    describe_as_consumer_group(talk, wire)
    talk.ask("a classic member of another type", wire, 9, talk.join(MEMBER, protocol_type="connect"))
    talk.ask("a classic member of that instance", wire, 9, talk.join(MEMBER, group_instance_id="one"))


@scene
def an_empty_transactional_id(talk: Dialogue):
    wire = Writer(talk, 5).wire
    producer = {"producer_id": 1, "producer_epoch": 0}
    for what, topic, index in (("", "t", 0), (", a topic that is not there", "nothing", 0), (", partition 7", "t", 7)):
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index])]
        for version in range(4):
            talk.ask(
                f"add partitions {version}{what}",
                wire,
                version,
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id="", v3_and_below_producer_id=1, v3_and_below_topics=topics
                ),
            )
        for version in (4, 5):
            for verify in (False, True):
                asked = AddPartitionsToTxnTransaction(
                    transactional_id="", verify_only=verify, topics=topics, **producer
                )
                request = AddPartitionsToTxnRequest(transactions=[asked])
                talk.ask(f"add partitions {version}, verify {verify}{what}", wire, version, request)
    for version in range(5):
        added = AddOffsetsToTxnRequest(transactional_id="", group_id=talk.group, **producer)
        talk.ask(f"add offsets {version}", wire, version, added)
    for version in range(6):
        talk.ask(f"end {version}", wire, version, EndTxnRequest(transactional_id="", committed=True, **producer))
        talk.ask(f"init {version}", wire, version, InitProducerIdRequest(transactional_id=""))
        talk.ask(f"commit {version}", wire, version, _offsets(talk, "", "t", **producer))
    talk.ask("describe", wire, 0, DescribeTransactionsRequest(transactional_ids=[""]))


@scene
def commits_that_name_no_topic(talk: Dialogue):
    wire = talk.wire()
    for version in (3, 4, 5):
        writer = Writer(talk, version)
        _transaction(talk, writer, "before")
        request = _offsets(talk, writer.transactional_id, **writer.producer)
        talk.ask(f"no topic, version {version}", writer.wire, version, request)
        _transaction(talk, writer, "after")
    talk.ask("no topic, plain", wire, 9, OffsetCommitRequest(group_id=talk.group))


@scene
def commits_that_name_a_topic_twice(talk: Dialogue):
    wire = talk.wire()
    for what, topics in (("both there", "tt"), ("one is not", "tnt"), ("both are not", "nn")):
        for index in (0, 7):
            request = commit(talk, partition=index)
            request.topics = [each for topic in topics for each in commit(talk, topic=topic, partition=index).topics]
            talk.ask(f"{what}, partition {index}", wire, 9, request)
            request.generation_id_or_member_epoch = 3
            request.member_id = NOBODY
            talk.ask(f"{what}, partition {index}, by nobody", wire, 9, request)


@scene
def transactional_commits_that_name_a_topic_twice(talk: Dialogue):
    for version in (3, 5):
        writer = Writer(talk, version)
        for topics in ("tt", "tnt", "nn", "tu"):
            for indexes in ((0, 0), (0, 7), (7, 7)):
                request = _offsets(talk, writer.transactional_id, *topics, **writer.producer)
                for topic in request.topics:
                    topic.partitions = [
                        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in indexes
                    ]
                talk.ask(f"version {version}, {topics} {indexes}", writer.wire, version, request)


@scene
def producers_and_markers_of_topics_that_cannot_be(talk: Dialogue):
    wire = talk.wire()
    for name in ("", "nothing", "a/b", ".", "x" * 250):
        topics = [TopicRequest(name=name, partition_indexes=[0, -1])]
        if name != "nothing":  # its message has words of our own
            talk.ask(f"producers of {name}", wire, 0, DescribeProducersRequest(topics=topics))
        marked = [WritableTxnMarkerTopic(name=name, partition_indexes=[0, -1])]
        marker = WritableTxnMarker(producer_id=1_000_000, producer_epoch=0, coordinator_epoch=0, topics=marked)
        for version in (1, 2):
            talk.ask(f"markers {version} of {name}", wire, version, WriteTxnMarkersRequest(markers=[marker]))


def _offsets(talk: Dialogue, transactional_id: str, *topics: str, **producer: int) -> TxnOffsetCommitRequest:
    place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="note")
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=talk.group,
        generation_id=-1,
        member_id="",
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place]) for topic in topics],
        **producer,
    )


def _transaction(talk: Dialogue, writer: Writer, when: str) -> None:
    """Note the state of a writer's transaction; its partitions depend on the group's name, which differs."""
    asked = DescribeTransactionsRequest(transactional_ids=[writer.transactional_id])
    (state,) = _ask(writer.wire, asked).transaction_states
    talk.said.append(f"{when}, version {writer.version}: {state.transaction_state}, topics {len(state.topics)}")


def _ask(wire: Wire, request: DescribeTransactionsRequest) -> Any:
    return wire.ask(0, request)
