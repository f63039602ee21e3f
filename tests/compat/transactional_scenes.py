"""Scenes of offsets that are committed in transactions, for groups of both protocols, played as those of groups are."""

from __future__ import annotations

import time
from typing import Any

from group_dialogue import Dialogue, Wire
from group_scenes import Scene

from ottla.kernel.errors import ErrorCode
from ottla.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedTopicPartitions,
)
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.messages.leave_group import MemberIdentity
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TRANSACTIONAL_SCENES: list[Scene] = []
ADDS_BY_ITSELF = 5
MEMBER, NOBODY = "some-member", "nobody"
_SOON = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


def scene(play: Scene) -> Scene:
    TRANSACTIONAL_SCENES.append(play)
    return play


class Writer:
    """A producer with an open transaction, which commits offsets of the group in one version of TxnOffsetCommit."""

    def __init__(self, talk: Dialogue, version: int) -> None:
        self.talk, self.version, self.wire = talk, version, talk.wire()
        self.transactional_id = f"{talk.group}-{version}"
        patiently(self.wire, 3, FindCoordinatorRequest(key=self.transactional_id, key_type=1))
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        given = patiently(self.wire, 4, request)
        self.producer = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
        if version < ADDS_BY_ITSELF:
            added = AddOffsetsToTxnRequest(transactional_id=self.transactional_id, group_id=talk.group, **self.producer)
            assert not patiently(self.wire, 3, added).error_code

    def commit(self, what: str, member_id: str, epoch: int, *, topic: str = "t", instance: str | None = None) -> None:
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="note")
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.talk.group,
            generation_id=epoch,
            member_id=member_id,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place])],
            **self.producer,
        )
        self.talk.ask(f"{what}, version {self.version}", self.wire, self.version, request)


def patiently(wire: Wire, version: int, request: Any) -> Any:
    """The answer, once the coordinator is there."""
    deadline = time.monotonic() + 60
    while True:
        answer = wire.ask(version, request)
        if answer.error_code not in _SOON:
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)


def subscribed(talk: Dialogue, wire: Wire, epoch: int, *topics: str, **options: Any) -> ConsumerGroupHeartbeatResponse:
    """Heartbeats of the one member until it is told of partitions of all topics."""
    joins: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} if epoch == 0 else {}
    wanted: list[str] | None = list(topics)
    deadline = time.monotonic() + 60
    while True:
        request = ConsumerGroupHeartbeatRequest(
            group_id=talk.group,
            member_id=MEMBER,
            member_epoch=epoch,
            subscribed_topic_names=wanted,
            **{"topic_partitions": None, **joins, **options},
        )
        answer = patiently(wire, 1, request)
        assert not answer.error_code, answer
        told = answer.assignment
        if told is not None and len(told.topic_partitions) == len(topics):
            return answer  # type: ignore[no-any-return]
        epoch, wanted, joins = answer.member_epoch, None, {}
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


def owned(answer: ConsumerGroupHeartbeatResponse) -> list[OwnedTopicPartitions]:
    assert answer.assignment is not None
    return [
        OwnedTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
        for each in answer.assignment.topic_partitions
    ]


@scene
def members_of_a_consumer_group_commit_in_transactions(talk: Dialogue):
    wire = talk.wire()
    first = subscribed(talk, wire, 0, "t", instance_id="some-instance")
    then = subscribed(talk, wire, first.member_epoch, "t", "u", topic_partitions=owned(first))
    before, now = first.member_epoch, then.member_epoch
    assert before < now
    for version in (3, 4, 5):
        writer = Writer(talk, version)
        writer.commit("the member in its epoch", MEMBER, now)
        writer.commit("the member in its epoch, with another instance", MEMBER, now, instance="other")
        writer.commit("the epoch before, a partition it had", MEMBER, before)
        writer.commit("the epoch before, a partition it did not have", MEMBER, before, topic="u")
        for what, epoch in (("a later epoch", now + 1), ("epoch 0", 0), ("epoch -1", -1), ("epoch -2", -2)):
            writer.commit(what, MEMBER, epoch)
        for what, epoch in (("the epoch", now), ("epoch -1", -1)):
            writer.commit(f"who is no member, {what}", NOBODY, epoch)
        for what, epoch in (("the epoch", now), ("epoch 0", 0), ("epoch -1", -1), ("epoch -2", -2)):
            writer.commit(f"nobody named, {what}", "", epoch)
        writer.commit("an instance alone", "", -1, instance="some-instance")
    leaves = ConsumerGroupHeartbeatRequest(group_id=talk.group, member_id=MEMBER, member_epoch=-1)
    assert not wire.ask(1, leaves).error_code
    writer = Writer(talk, 5)
    for what, epoch in (("the last epoch", now), ("epoch 0", 0), ("epoch -1", -1), ("epoch -2", -2)):
        writer.commit(f"an empty group, {what}", MEMBER, epoch)


@scene
def members_of_a_classic_group_commit_in_transactions(talk: Dialogue):
    wire = talk.wire()
    absent = Writer(talk, 3)
    absent.commit("a group that is not there, generation 3", "", 3)
    absent.commit("a group that is not there, generation 0", NOBODY, 0)
    member = talk.joined(wire).member_id
    talk.ask("assigned", wire, 5, talk.sync(member, 1, {member: b"mine"}))
    for version in (4, 5):
        writer = Writer(talk, version)
        for what, epoch in (("its generation", 1), ("a later one", 2), ("generation 0", 0), ("generation -1", -1)):
            writer.commit(f"the member in {what}", member, epoch)
            writer.commit(f"who is no member, {what}", NOBODY, epoch)
            writer.commit(f"nobody named, {what}", "", epoch)
        writer.commit("an instance alone", "", -1, instance="some-instance")
    talk.ask("leave", wire, 4, talk.leave(MemberIdentity(member_id=member)))
    for what, epoch in (("generation 0", 0), ("generation -1", -1)):
        writer.commit(f"an empty group, {what}", NOBODY, epoch)
