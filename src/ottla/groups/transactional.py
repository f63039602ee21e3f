"""Offsets that a group commits within a transaction: which are accepted, and the entries that they become.

Comes from shard.py. The entries are pending until the marker of the transaction is in the log (offsets.py).
"""

from __future__ import annotations

from ottla.groups.entries import offset_entry
from ottla.groups.group import Group, GroupState
from ottla.groups.offsets import Offsets
from ottla.groups.values import GroupDecision, Moment
from ottla.kernel.errors import ErrorCode
from ottla.messages.group_records import OffsetCommitValue
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def refusal(group: Group | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    """The error of a producer's offsets.

    A group takes them from a member in its generation, or from a producer that names no member.

    Unlike a plain commit's, they are taken while the group rebalances.
    """
    if group is None:
        return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    names_nobody = not request.member_id and request.group_instance_id is None
    if request.generation_id < 0 and (names_nobody or group.state is GroupState.EMPTY):
        return ErrorCode.NONE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    return ErrorCode.NONE if request.generation_id == group.generation else ErrorCode.ILLEGAL_GENERATION


def commit(
    offsets: Offsets, request: TxnOffsetCommitRequest, topic_ids: dict[str, bytes], now: Moment, out: GroupDecision
) -> TxnOffsetCommitResponse:
    """Write the offsets of topics whose ids are known."""
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answered)
        for partition in topic.partitions:
            error = ErrorCode.NONE
            if offsets.too_long(partition.committed_metadata):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                value = _value(partition, topic_ids[topic.name], now.wall_ms)
                out.write(offset_entry(request.group_id, topic.name, partition.partition_index, value))
            answered.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
    return response


def _value(partition: TxnOffsetCommitRequestPartition, topic_id: bytes, wall_ms: int) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=max(partition.committed_leader_epoch, -1),
        metadata=partition.committed_metadata or "",
        commit_timestamp=wall_ms,
        topic_id=topic_id,
    )
