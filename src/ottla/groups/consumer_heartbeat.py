"""Decides, step by step, what a heartbeat of a present or new member changes in a consumer group (KIP-848).

Comes from consumer_groups.py; the steps are in consumer_steps.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_requests import is_full, owned_partitions, refused, updated
from ottla.groups.consumer_steps import GroupSurroundings, Trial, advance
from ottla.groups.consumer_values import JOINING, LEAVING_FOR_A_WHILE, ConsumerMember, is_subset
from ottla.groups.reconciliation import come_back
from ottla.groups.values import Caller, ConsumerGroupSettings, GroupEntry, Moment
from ottla.kernel.errors import ErrorCode, clipped
from ottla.kernel.patterns import BadPattern, compile_pattern
from ottla.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

Refused = ConsumerGroupHeartbeatResponse


@dataclass(frozen=True, slots=True)
class Beat:
    """The outcome of a heartbeat: entries to write, the answer, and the member as it is once they are applied."""

    entries: list[GroupEntry]
    answer: ConsumerGroupHeartbeatResponse
    member: ConsumerMember
    moved: bool
    """True if the assignment of the member was written anew."""
    wants_regex: bool
    """True if the member subscribes by a regular expression that is not resolved."""


def beat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    now: Moment,
    settings: ConsumerGroupSettings,
    around: GroupSurroundings,
) -> Beat | Refused:
    """Decide about a heartbeat of a member that stays or joins."""
    before = _member(group, request, around.max_size)
    if isinstance(before, Refused):
        return before
    asked = updated(before, request, caller)
    if asked.regex and asked.regex != before.regex and asked.regex not in group.regexes:
        try:
            compile_pattern(asked.regex)
        except BadPattern as fault:
            return refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{clipped(asked.regex)}: {fault}")
    trial = Trial(group)
    advanced = advance(trial, before, asked, owned_partitions(request), now, settings, around)
    if advanced is None:
        return refused(ErrorCode.FENCED_MEMBER_EPOCH, "The member must give up its partitions and join again.")
    moved = advanced.member
    tell = is_full(request) or moved.assigned != before.assigned
    return Beat(
        trial.entries,
        _answer(moved, settings, tell=tell),
        moved,
        moved=advanced.moved,
        wants_regex=bool(moved.regex) and moved.regex not in group.regexes,
    )


# The member


def _member(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, max_size: int) -> ConsumerMember | Refused:
    """The member before this heartbeat; a new one if it joins."""
    if request.instance_id is not None:
        return _static_member(group, request, request.instance_id, max_size)
    member = group.members.get(request.member_id)
    if member is not None:
        return _of_this_epoch(member, request)
    if request.member_epoch != JOINING:
        return _unknown(request)
    return _new_member(group, request, max_size)


def _static_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, instance_id: str, max_size: int
) -> ConsumerMember | Refused:
    """A static member joins under any id while its place is free, and then stays under that id.

    The place of a classic member is free at any time, as it is in a classic group (KIP-345).
    """
    holder = group.static_member(instance_id)
    if request.member_epoch != JOINING:
        if holder is None:
            return _unknown(request)
        if holder.member_id != request.member_id:
            return refused(ErrorCode.FENCED_INSTANCE_ID, f"Another member has the instance id {clipped(instance_id)}.")
        return _of_this_epoch(holder, request)
    if holder is None:
        return group.members.get(request.member_id) or _new_member(group, request, max_size)
    if holder.epoch != LEAVING_FOR_A_WHILE and holder.classic is None:
        return refused(
            ErrorCode.UNRELEASED_INSTANCE_ID, f"The instance id {clipped(instance_id)} is used by another member."
        )
    return come_back(holder, request.member_id)


def _new_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, max_size: int
) -> ConsumerMember | Refused:
    if len(group.members) >= max_size:
        return refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {max_size} members, which is the most.")
    return ConsumerMember(request.member_id)


def _of_this_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember | Refused:
    """Check the member's epoch; the one before counts too if the answer with the newer one was lost."""
    epoch = request.member_epoch
    if epoch in (JOINING, member.epoch):
        return member
    if epoch == member.previous_epoch and epoch < member.epoch:
        owned = owned_partitions(request)
        if owned is not None and is_subset(owned, member.assigned):
            return member
    relation = "above" if epoch > member.epoch else "below"
    return refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The epoch {epoch} is {relation} the member's, {member.epoch}: it must give up its partitions and join again.",
    )


def _unknown(request: ConsumerGroupHeartbeatRequest) -> Refused:
    return refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{clipped(request.member_id)} is not a member of the group.")


def _answer(member: ConsumerMember, settings: ConsumerGroupSettings, *, tell: bool) -> ConsumerGroupHeartbeatResponse:
    """Put the assignment into the answer if it is new to the client: null means unchanged."""
    assignment = None
    if tell:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic, partitions=sorted(epochs))
                for topic, epochs in sorted(member.assigned.items())
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=assignment,
    )
