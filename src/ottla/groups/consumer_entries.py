"""The entries of one group of the consumer protocol: made from values, and applied to the group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_values import (
    ConsumerMember,
    MemberState,
    Partitions,
    ResolvedRegex,
    partitions_of,
)
from ottla.groups.values import ConsumerKey, ConsumerValue, GroupEntry
from ottla.messages import consumer_group_records as records

_STATES = {state.value: state for state in MemberState}

# Making


def epoch_entry(group_id: str, epoch: int, metadata_hash: int) -> GroupEntry:
    value = records.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return GroupEntry(records.ConsumerGroupMetadataKey(group_id=group_id), value, 0)


def member_entry(group_id: str, member: ConsumerMember) -> GroupEntry:
    """The subscription of a member."""
    value = records.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )
    return GroupEntry(records.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value, 0)


def target_epoch_entry(group_id: str, epoch: int, wall_ms: int) -> GroupEntry:
    value = records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall_ms)
    return GroupEntry(records.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value, 0)


def target_entry(group_id: str, member_id: str, target: Partitions) -> GroupEntry:
    value = records.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            records.TargetTopicPartitions(topic_id=topic, partitions=sorted(indexes))
            for topic, indexes in sorted(target.items())
        ]
    )
    return GroupEntry(records.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value, 0)


def current_entry(group_id: str, member: ConsumerMember) -> GroupEntry:
    """The assignment of a member as far as it is carried out."""
    value = records.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        assigned_partitions=[_assigned(topic, epochs) for topic, epochs in sorted(member.assigned.items())],
        partitions_pending_revocation=[_assigned(topic, epochs) for topic, epochs in sorted(member.pending.items())],
    )
    key = records.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return GroupEntry(key, value, 0)


def _assigned(topic: bytes, epochs: Mapping[int, int]) -> records.TopicPartitions:
    indexes = sorted(epochs)
    return records.TopicPartitions(
        topic_id=topic, partitions=indexes, assignment_epochs=[epochs[index] for index in indexes]
    )


def regex_entry(group_id: str, regex: str, resolved: ResolvedRegex | None) -> GroupEntry:
    key = records.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    if resolved is None:
        return GroupEntry(key, None, 0)
    value = records.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return GroupEntry(key, value, 0)


def departure_entries(group_id: str, member_id: str) -> Iterator[GroupEntry]:
    """Tombstones for all records of a member."""
    yield GroupEntry(records.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None, 0)
    yield GroupEntry(records.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None, 0)
    yield GroupEntry(records.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None, 0)


def group_tombstones(group: ConsumerGroup) -> Iterator[GroupEntry]:
    """Tombstones for all records of a group."""
    for member_id in sorted(group.members.keys() | group.target.keys()):
        yield from departure_entries(group.group_id, member_id)
    for regex in sorted(group.regexes):
        yield regex_entry(group.group_id, regex, None)
    yield GroupEntry(records.ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id), None, 0)
    yield GroupEntry(records.ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None, 0)
    yield GroupEntry(records.ConsumerGroupMetadataKey(group_id=group.group_id), None, 0)


# Applying


def apply(group: ConsumerGroup, key: ConsumerKey, value: ConsumerValue | None) -> None:
    """Take in one entry of the group, except the tombstone of the group itself."""
    if isinstance(value, records.ConsumerGroupMetadataValue):
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif isinstance(key, records.ConsumerGroupMemberMetadataKey):
        _apply_member(group, key.member_id, value)
    elif isinstance(key, records.ConsumerGroupTargetAssignmentMetadataKey):
        _apply_target_epoch(group, value)
    elif isinstance(key, records.ConsumerGroupTargetAssignmentMemberKey):
        _apply_target(group, key.member_id, value)
    elif isinstance(key, records.ConsumerGroupCurrentMemberAssignmentKey):
        _apply_current(group, key.member_id, value)
    elif isinstance(key, records.ConsumerGroupRegularExpressionKey):
        _apply_regex(group, key.regular_expression, value)


def _apply_member(group: ConsumerGroup, member_id: str, value: ConsumerValue | None) -> None:
    if value is None:
        group.remove_member(member_id)
        return
    assert isinstance(value, records.ConsumerGroupMemberMetadataValue)
    classic = value.classic_member_metadata
    if classic is not None and not classic.supported_protocols:
        classic = None  # the field was left out, and holds its default: no classic member is without a protocol
    before = group.members.get(member_id) or ConsumerMember(member_id)
    group.put_member(
        replace(
            before,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=classic,
        )
    )


def _apply_target_epoch(group: ConsumerGroup, value: ConsumerValue | None) -> None:
    if value is None:
        group.assignment_epoch, group.assigned_at_ms = 0, 0
        return
    assert isinstance(value, records.ConsumerGroupTargetAssignmentMetadataValue)
    group.assignment_epoch, group.assigned_at_ms = value.assignment_epoch, value.assignment_timestamp


def _apply_target(group: ConsumerGroup, member_id: str, value: ConsumerValue | None) -> None:
    if value is None:
        group.target.pop(member_id, None)
        return
    assert isinstance(value, records.ConsumerGroupTargetAssignmentMemberValue)
    group.target[member_id] = partitions_of((each.topic_id, each.partitions) for each in value.topic_partitions)


def _apply_current(group: ConsumerGroup, member_id: str, value: ConsumerValue | None) -> None:
    before = group.members.get(member_id)
    if value is None:
        if before is not None:
            group.put_member(
                replace(before, epoch=0, previous_epoch=-1, state=MemberState.STABLE, assigned={}, pending={})
            )
        return
    assert isinstance(value, records.ConsumerGroupCurrentMemberAssignmentValue)
    group.put_member(
        replace(
            before or ConsumerMember(member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=_with_epochs(value.assigned_partitions, value.member_epoch),
            pending=_with_epochs(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _with_epochs(assigned: Iterable[records.TopicPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    """Partitions with their assignment epochs; Kafka before 4.3 wrote none, then the member's epoch counts."""
    found: dict[bytes, dict[int, int]] = {}
    for each in assigned:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        if each.partitions:
            found.setdefault(each.topic_id, {}).update(zip(each.partitions, epochs, strict=True))
    return found


def _apply_regex(group: ConsumerGroup, regex: str, value: ConsumerValue | None) -> None:
    if value is None:
        group.put_regex(regex, None)
        return
    assert isinstance(value, records.ConsumerGroupRegularExpressionValue)
    group.put_regex(regex, ResolvedRegex(frozenset(value.topics), value.version, value.timestamp))
