"""Offsets of consumer groups: who may commit and read them, in which epoch."""

from __future__ import annotations

import pytest
from tests.groups.consumer_desk import ConsumerDesk

from ottla.groups.values import Caller
from ottla.kernel.errors import ErrorCode
from ottla.kernel.shards import Writer
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

    def __init__(self) -> None:
        super().__init__()
        self.join_consumer("a")
        self.join_consumer("b")
        self.beat("a", 2)
        self.beat("a", 2, owned={"t": {0, 1}})
        self.beat("b", 3)

    def put(self, partition: int, *, member: str, epoch: int, version: int = 10) -> ErrorCode:
        slot = self.ticket()
        places = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=7, committed_metadata=None)]
        request = OffsetCommitRequest(
            group_id="g",
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name="t", topic_id=self.topics.id_of("t"), partitions=places)],
        )
        self.carry_out(self.shard.commit_offsets(request, Caller("c", "/h", version), slot, self.now))
        answer = slot.result()
        if isinstance(answer, OffsetCommitResponse):
            return ErrorCode(answer.topics[0].partitions[0].error_code)
        return ErrorCode(answer)

    def put_in_transaction(self, partition: int, *, member: str, epoch: int) -> ErrorCode:
        slot = self.ticket()
        places = [TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=9)]
        request = TxnOffsetCommitRequest(
            group_id="g",
            member_id=member,
            generation_id=epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=places)],
        )
        ids = {"t": self.topics.id_of("t")}
        self.carry_out(self.shard.commit_in_transaction(request, ids, Writer(5, 0, None), slot, self.now))
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


def test_transactions_commit_for_members_in_their_epoch_and_for_nobody_named():
    desk = OffsetDesk()
    assert desk.put_in_transaction(0, member="a", epoch=3) == ErrorCode.NONE
    assert desk.put_in_transaction(0, member="", epoch=-1) == ErrorCode.NONE
    assert desk.put_in_transaction(0, member="c", epoch=3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.put_in_transaction(0, member="a", epoch=4) == ErrorCode.ILLEGAL_GENERATION


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
