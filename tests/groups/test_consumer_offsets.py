"""Offsets of consumer groups: the members and epochs that may commit and read them."""

from __future__ import annotations

import pytest
from tests.groups.consumer_desk import ConsumerDesk, SomeTopics

from ottla.groups.consumer_values import MemberState
from ottla.groups.values import Caller
from ottla.kernel.errors import ErrorCode
from ottla.kernel.shards import TransactionalWriter
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


class OffsetDesk(ConsumerDesk):
    """`a` and `b` share topic t; the ids of topics are those of the desk."""

    def __init__(self, topics: SomeTopics | None = None) -> None:
        super().__init__(topics=topics)
        self.join_consumer("a")
        self.join_consumer("b")
        self.beat("a", 2)
        self.beat("a", 2, owned={"t": {0, 1}})
        self.beat("b", 3)

    def put(
        self, partition: int, *, member: str, epoch: int, version: int = 10, instance: str | None = None
    ) -> ErrorCode:
        slot = self.ticket()
        places = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=7, committed_metadata=None)]
        request = OffsetCommitRequest(
            group_id="g",
            member_id=member,
            group_instance_id=instance,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name="t", topic_id=self.topics.id_of("t"), partitions=places)],
        )
        self.carry_out(self.shard.commit_offsets(request, Caller("c", "/h", version), slot, self.now))
        answer = slot.result()
        if isinstance(answer, OffsetCommitResponse):
            return ErrorCode(answer.topics[0].partitions[0].error_code)
        return ErrorCode(answer)

    def put_in_transaction(self, partition: int, *, member: str, epoch: int, instance: str | None = None) -> ErrorCode:
        slot = self.ticket()
        places = [TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=9)]
        request = TxnOffsetCommitRequest(
            group_id="g",
            member_id=member,
            group_instance_id=instance,
            generation_id=epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=places)],
        )
        ids = {"t": self.topics.id_of("t")}
        self.carry_out(self.shard.commit_in_transaction(request, ids, TransactionalWriter(5, 0, None), slot, self.now))
        answer = slot.result()
        return answer if isinstance(answer, ErrorCode) else ErrorCode(answer.topics[0].partitions[0].error_code)

    def read(self, member: str | None, epoch: int) -> ErrorCode:
        slot = self.ticket()
        asked = OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=None)
        self.carry_out(self.shard.fetch_offsets(asked, require_stable=False, ticket=slot))
        answer = slot.result()
        return ErrorCode(answer.error_code) if isinstance(answer, OffsetFetchResponseGroup) else ErrorCode(answer)


def test_a_member_commits_in_its_epoch():
    desk = OffsetDesk()
    assert desk.put(0, member="a", epoch=3) == ErrorCode.NONE
    assert desk.committed() == {("t", 0): 7}


@pytest.mark.parametrize(
    ("partition", "epoch", "error"),
    [
        (0, 2, ErrorCode.NONE),
        (0, 1, ErrorCode.STALE_MEMBER_EPOCH),
        (2, 2, ErrorCode.STALE_MEMBER_EPOCH),
        (0, 4, ErrorCode.STALE_MEMBER_EPOCH),
        (0, -1, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_an_older_epoch_may_commit_what_the_member_already_had_in_it(partition: int, epoch: int, error: ErrorCode):
    assert OffsetDesk().put(partition, member="a", epoch=epoch) == error


def test_the_new_owner_does_not_commit_in_the_epoch_before_it_owned():
    desk = OffsetDesk()
    assert desk.put(2, member="b", epoch=2) == ErrorCode.STALE_MEMBER_EPOCH
    assert desk.put(2, member="b", epoch=3) == ErrorCode.NONE


def test_a_member_needs_a_version_that_knows_member_epochs():
    assert OffsetDesk().put(0, member="a", epoch=3, version=8) == ErrorCode.UNSUPPORTED_VERSION


def test_who_is_no_member_commits_only_into_an_empty_group():
    desk = OffsetDesk()
    assert desk.put(0, member="", epoch=-1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.put(0, member="c", epoch=3) == ErrorCode.UNKNOWN_MEMBER_ID
    desk.beat("a", -1)
    desk.beat("b", -1)
    assert desk.put(0, member="", epoch=-1) == ErrorCode.NONE


def test_a_static_member_on_leave_commits_no_more():
    desk = ConsumerDesk()
    desk.join_consumer("a", instance="i")
    desk.beat("a", -2, instance="i")
    assert desk.commit({("t", 0): 7}, member_id="a", generation=2) == ErrorCode.STALE_MEMBER_EPOCH
    desk.join_consumer("a2", instance="i")
    assert desk.commit({("t", 0): 7}, member_id="a", generation=2) == ErrorCode.UNKNOWN_MEMBER_ID


TAKEN, STALE, UNKNOWN = ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member", "epoch", "partition", "error"),
    [
        ("a", 3, 0, TAKEN),
        ("a", 3, 2, TAKEN),  # not assigned to it, but its epoch is the newest
        ("a", 2, 0, TAKEN),
        ("a", 2, 2, STALE),  # it was given up
        ("a", 1, 0, STALE),
        ("a", 0, 0, STALE),
        ("a", -1, 0, STALE),
        ("a", 4, 0, STALE),
        ("c", 3, 0, UNKNOWN),
        ("c", -1, 0, UNKNOWN),
        ("", -1, 0, TAKEN),
        ("", -2, 0, UNKNOWN),
        ("", 0, 0, UNKNOWN),
        ("", 3, 0, UNKNOWN),
    ],
)
def test_transactions_commit_for_members_as_in_apache_kafka(member: str, epoch: int, partition: int, error: ErrorCode):
    """No version of TxnOffsetCommit up to 5 knows STALE_MEMBER_EPOCH: ILLEGAL_GENERATION stands for it."""
    assert OffsetDesk().put_in_transaction(partition, member=member, epoch=epoch) == error


def test_an_instance_does_not_stand_for_a_member_and_is_not_compared():
    desk = OffsetDesk()
    desk.join_consumer("s", instance="i")
    epoch = desk.group().members["s"].epoch
    for put in (desk.put, desk.put_in_transaction):
        assert put(0, member="", epoch=-1, instance="i") == UNKNOWN
        assert put(0, member="s", epoch=epoch, instance="other") == TAKEN


@pytest.mark.parametrize(("member", "epoch"), [("", -1), ("gone", -1), ("gone", -2)])
def test_an_empty_group_takes_offsets_from_whoever_is_in_no_epoch(member: str, epoch: int):
    desk = OffsetDesk()
    desk.beat("a", -1)
    desk.beat("b", -1)
    assert desk.put_in_transaction(0, member=member, epoch=epoch) == TAKEN
    assert desk.put(0, member=member, epoch=epoch) == TAKEN
    assert desk.put_in_transaction(0, member="gone", epoch=3) == UNKNOWN


@pytest.mark.parametrize("replayed", [False, True], ids=["live", "replayed"])
def test_a_partition_that_must_be_given_up_is_committed_in_the_epochs_since_it_was_assigned(replayed: bool):
    desk = OffsetDesk(SomeTopics(t=4, u=1))
    desk.beat("b", -1)
    desk.beat("a", 3)
    desk.beat("a", 4, topics=("t", "u"))
    desk.join_consumer("b")
    desk.beat("a", 5)
    if replayed:
        desk.fail_over()
    member = desk.group().members["a"]
    assert (member.epoch, member.state, member.pending) == (
        5,
        MemberState.UNREVOKED,
        {desk.topics.id_of("t"): {2: 4, 3: 4}},
    )
    assert desk.put(2, member="a", epoch=4) == TAKEN
    assert desk.put_in_transaction(2, member="a", epoch=4) == TAKEN
    assert desk.put(2, member="a", epoch=3) == ErrorCode.STALE_MEMBER_EPOCH
    assert desk.put_in_transaction(2, member="a", epoch=3) == STALE


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("", -1, ErrorCode.NONE),
        ("a", 3, ErrorCode.NONE),
        ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("c", 3, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members_read_offsets_in_their_epoch_alone(member: str | None, epoch: int, error: ErrorCode):
    assert OffsetDesk().read(member, epoch) == error


def test_a_classic_member_hears_of_another_generation_in_the_terms_of_its_protocol():
    desk = OffsetDesk()
    member_id, joined = desk.join_by_id()
    generation = joined.result().generation_id
    assert desk.read(member_id, generation) == ErrorCode.NONE
    assert desk.read(member_id, generation - 1) == ErrorCode.ILLEGAL_GENERATION
