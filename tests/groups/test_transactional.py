"""Offsets committed within a transaction: which are taken, row by row, and their fate."""

import pytest
from group_desk import Desk

from ottla.kernel.errors import ErrorCode
from ottla.kernel.shards import TransactionalWriter
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TOPIC_ID = bytes(range(16))
PRODUCER = 7


def commit(desk: Desk, offset: int = 8, *, group: str = "g", metadata: str = "", producer: int = PRODUCER, **member):
    """Commit an offset in a transaction; return the error of the request or of its partition."""
    place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[place])]
    request = TxnOffsetCommitRequest(group_id=group, topics=topics, **member)
    slot = desk.ticket()
    writer = TransactionalWriter(producer, 0, None)
    desk.carry_out(desk.shard.commit_in_transaction(request, {"t": TOPIC_ID}, writer, slot, desk.now))
    answer = slot.result()
    return answer if isinstance(answer, ErrorCode) else ErrorCode(answer.topics[0].partitions[0].error_code)


def test_who_names_no_member_is_taken_whatever_the_group():
    desk = Desk()
    assert commit(desk, group="new") == ErrorCode.NONE
    desk.stable("a")
    assert commit(desk) == ErrorCode.NONE


def test_a_generation_of_a_group_that_there_is_not_is_refused():
    desk = Desk()
    assert commit(desk, generation_id=3) == ErrorCode.ILLEGAL_GENERATION
    assert commit(desk, generation_id=3, member_id="m") == ErrorCode.ILLEGAL_GENERATION


def test_a_group_without_members_takes_offsets_from_whoever_is_in_no_generation():
    desk = Desk()
    _, (member,) = desk.stable("a")
    assert commit(desk, generation_id=-1, member_id="gone") == ErrorCode.UNKNOWN_MEMBER_ID
    desk.leave(member)
    assert commit(desk, generation_id=-1, member_id="gone") == ErrorCode.NONE
    assert commit(desk, generation_id=-1, group_instance_id="gone") == ErrorCode.NONE
    assert commit(desk, generation_id=0, member_id="gone") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_is_taken_in_its_generation_alone():
    desk = Desk()
    generation, (member,) = desk.stable("a")
    assert commit(desk, generation_id=generation, member_id=member) == ErrorCode.NONE
    assert commit(desk, generation_id=generation + 1, member_id=member) == ErrorCode.ILLEGAL_GENERATION
    assert commit(desk, generation_id=generation, member_id="other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(desk, generation_id=generation, member_id="") == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_is_taken_from_the_member_that_has_it_alone():
    desk = Desk()
    slots = [desk.join(instance=name) for name in ("one", "two")]
    desk.pass_ms(0)
    one, two = (slot.result().member_id for slot in slots)
    now = slots[0].result().generation_id
    for given in (now, now + 1):
        error = commit(desk, generation_id=given, member_id=two, group_instance_id="one")
        assert error == ErrorCode.FENCED_INSTANCE_ID
    unknown = commit(desk, generation_id=now, member_id=one, group_instance_id="none")
    assert unknown == ErrorCode.UNKNOWN_MEMBER_ID
    later = commit(desk, generation_id=now + 1, member_id=one, group_instance_id="one")
    assert later == ErrorCode.ILLEGAL_GENERATION
    assert commit(desk, generation_id=now, member_id=one, group_instance_id="one") == ErrorCode.NONE


def test_a_member_is_taken_while_the_group_rebalances():
    desk = Desk()
    generation, (member,) = desk.stable("a")
    desk.join_by_id()
    assert commit(desk, generation_id=generation, member_id=member) == ErrorCode.NONE


def test_metadata_that_is_too_long_is_refused_and_nothing_written():
    desk = Desk()
    assert commit(desk, metadata="x" * 4_097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert desk.log == []


@pytest.mark.parametrize(("committed", "offsets"), [(True, {("t", 0): 8}), (False, {})])
def test_it_stands_once_the_marker_says_so(committed: bool, offsets: dict):
    desk = Desk()
    commit(desk)
    assert desk.committed() == {}
    desk.shard.apply_marker(PRODUCER, committed=committed)
    assert desk.committed() == offsets


def test_a_commit_that_cannot_be_written_is_refused():
    desk = Desk()
    desk.refusing = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert commit(desk) == ErrorCode.NOT_COORDINATOR


def test_what_is_pending_for_a_topic_that_is_deleted_never_stands():
    desk = Desk()
    commit(desk)
    desk.carry_out(desk.shard.topics_deleted({"t": TOPIC_ID}))
    desk.shard.apply_marker(PRODUCER, committed=True)
    assert desk.committed() == {}


def test_what_is_pending_for_a_later_topic_of_the_name_is_left_alone():
    desk = Desk()
    commit(desk)
    desk.carry_out(desk.shard.topics_deleted({"t": bytes(16)[:15] + b"\x01"}))
    desk.shard.apply_marker(PRODUCER, committed=True)
    assert desk.committed() == {("t", 0): 8}
