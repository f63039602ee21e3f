"""Requests of a consumer group's members about its offsets, and the description of the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_values import ConsumerMember
from ottla.groups.topics import Topics
from ottla.kernel.errors import ErrorCode, clipped
from ottla.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from ottla.messages.offset_commit import OffsetCommitRequest
from ottla.messages.offset_fetch import OffsetFetchRequestGroup
from ottla.messages.txn_offset_commit import TxnOffsetCommitRequest

_MEMBER_EPOCHS_SINCE = 9
"""The version of OffsetCommit from which on it knows member epochs."""
_NO_EPOCH = -1
"""The generation in TxnOffsetCommit of a producer that was given no group metadata."""
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1

# Offsets


def commit_error(group: ConsumerGroup, request: OffsetCommitRequest, version: int) -> ErrorCode:
    """The error of a commit, or NONE if the group takes it. Topic ids are filled in already."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and version < _MEMBER_EPOCHS_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    places = ((topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions)
    return _epoch_error(member, epoch, places)


def transactional_error(
    group: ConsumerGroup, request: TxnOffsetCommitRequest, topic_ids: Mapping[str, bytes]
) -> ErrorCode:
    """The error of a producer's offset commit. The group takes one that names no member, and those of its members.

    Apache Kafka maps STALE_MEMBER_EPOCH to ILLEGAL_GENERATION in all versions up to 5, as clients do not expect it.
    """
    epoch = request.generation_id
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    if epoch == _NO_EPOCH and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    places = ((topic_ids[topic.name], each.partition_index) for topic in request.topics for each in topic.partitions)
    error = _epoch_error(member, epoch, places)
    return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error


def fetch_error(group: ConsumerGroup, request: OffsetFetchRequestGroup) -> ErrorCode:
    """The error of an offset fetch. The group answers requests that name no member, and members in their epoch."""
    if not request.member_id and request.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(request.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member.epoch == request.member_epoch else _wrong_epoch(member)


def _epoch_error(member: ConsumerMember, epoch: int, places: Iterable[tuple[bytes, int]]) -> ErrorCode:
    """True if a commit of an older epoch counts: the member still owns the partitions, and did then (KIP-1251)."""
    if epoch == member.epoch:
        return ErrorCode.NONE
    wrong = _wrong_epoch(member)
    if epoch > member.epoch:
        return wrong
    for topic_id, index in places:
        assigned_in = member.assigned.get(topic_id, {}).get(index)
        if assigned_in is None:
            assigned_in = member.pending.get(topic_id, {}).get(index)
        if assigned_in is None or assigned_in > epoch:
            return wrong
    return ErrorCode.NONE


def _wrong_epoch(member: ConsumerMember) -> ErrorCode:
    """The error for another epoch than the member's, in the terms of the member's protocol."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


# Describing


def described(group: ConsumerGroup, assignor: str, topics: Topics) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[_described(group, member, topics) for member in group.ordered_members()],
    )


def not_described(group_id: str, *, classic: bool) -> DescribedGroup:
    """The answer about a group that does not exist, or that is `classic`: of the classic protocol."""
    if not group_id:
        return DescribedGroup(
            group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID, error_message="The group id must not be empty."
        )
    message = f"Group {clipped(group_id)} " + ("is not a consumer group." if classic else "not found.")
    return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)


def _described(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Member:
    """A member as described; partitions that it still has to give up count as assigned."""
    held: dict[bytes, set[int]] = {topic: set(epochs) for topic, epochs in member.assigned.items()}
    for topic, indexes in member.pending.items():
        held.setdefault(topic, set()).update(indexes)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_shown(held, topics),
        target_assignment=_shown(group.target.get(member.member_id, {}), topics),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _shown(partitions: Mapping[bytes, Iterable[int]], topics: Topics) -> Assignment:
    """Partitions with the names of their topics, without those of deleted topics."""
    shown = []
    for topic_id, indexes in partitions.items():
        shape = topics.by_id(topic_id)
        if shape is not None:
            shown.append(TopicPartitions(topic_id=topic_id, topic_name=shape.name, partitions=sorted(indexes)))
    return Assignment(topic_partitions=sorted(shown, key=lambda each: each.topic_name))
