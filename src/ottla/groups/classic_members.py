"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that speak the classic protocol in a consumer group.

Comes from shard.py. The answers to the heartbeats of such a member tell it to join again when its assignment may
change. Its epoch is its generation; the coordinator assigns, and no member is told that it leads.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_groups import ConsumerGroups
from ottla.groups.consumer_steps import Trial, advance
from ottla.groups.consumer_values import ConsumerMember, MemberState
from ottla.groups.embedded import EmbeddedSubscription, read_subscription, write_assignment
from ottla.groups.entries import writable
from ottla.groups.group import CONSUMER_PROTOCOL_TYPE
from ottla.groups.migration import described
from ottla.groups.reconciliation import come_back
from ottla.groups.values import Caller, Moment, Turn
from ottla.kernel.errors import ErrorCode
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.schema.codec import MalformedMessage

_MEMBER_ID_REQUIRED_SINCE = 4

# JoinGroup


def join(groups: ConsumerGroups, group: ConsumerGroup, request: JoinGroupRequest, turn: Turn) -> None:
    """Answer at once with the member's epoch: members do not wait for one another here."""
    if turn.caller.version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    before = _joining(groups, group, request, turn)
    if isinstance(before, JoinGroupResponse):
        turn.answer(before)
        return
    try:
        subscription = read_subscription(request.protocols[0].metadata, groups.topics)
    except MalformedMessage:
        turn.answer(_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    asked = _updated(before, request, subscription, turn.caller)
    trial, settings = Trial(group), groups.settings_of(group.group_id)
    advanced = advance(trial, before, asked, subscription.owned, turn.now, settings, groups.around)
    if advanced is None:
        turn.answer(_refused(ErrorCode.UNKNOWN_MEMBER_ID))
        return
    generation = advanced.member.epoch
    if groups.take(group, trial, turn.now, turn.out):
        generation = trial.group.epoch
    else:
        groups.await_sync(group.group_id, advanced.member, turn.now)
    turn.answer(
        JoinGroupResponse(
            member_id=asked.member_id,
            generation_id=generation,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
        )
    )


def _joining(
    groups: ConsumerGroups, group: ConsumerGroup, request: JoinGroupRequest, turn: Turn
) -> ConsumerMember | JoinGroupResponse:
    """The member before this join, under the id that it will have; or the answer that refuses it."""
    member_id = request.member_id or groups.new_id()
    instance_id = request.group_instance_id
    holder = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
    if not _writable(request, turn.caller) or not writable(member_id):
        return _refused(ErrorCode.INVALID_REQUEST)
    if holder is None and group.size >= groups.around.max_size:
        return _refused(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not _supported(group, request):
        return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if instance_id is None:
        if not request.member_id and turn.caller.version >= _MEMBER_ID_REQUIRED_SINCE:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        return holder or ConsumerMember(member_id)
    if not request.member_id:
        return ConsumerMember(member_id) if holder is None else come_back(holder, member_id)
    if holder is None:
        return _refused(ErrorCode.UNKNOWN_MEMBER_ID)
    return holder if holder.member_id == member_id else _refused(ErrorCode.FENCED_INSTANCE_ID)


def _supported(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """True if all classic members know one of the protocols that are offered."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    return any(group.knows_protocol(protocol.name) for protocol in request.protocols)


def _writable(request: JoinGroupRequest, caller: Caller) -> bool:
    names = [caller.client_id, request.group_instance_id or "", *(protocol.name for protocol in request.protocols)]
    return all(writable(name) for name in names)


def _updated(
    before: ConsumerMember, request: JoinGroupRequest, subscription: EmbeddedSubscription, caller: Caller
) -> ConsumerMember:
    """The member with all values of the request; it names no assignor, and no regular expression."""
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        before,
        instance_id=before.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=before.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=subscription.topics,
        regex="",
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=None,
        classic=described(request.session_timeout_ms, request.protocols),
    )


def _refused(error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error)


# SyncGroup


def sync(groups: ConsumerGroups, group: ConsumerGroup, request: SyncGroupRequest, turn: Turn) -> None:
    """Give a member its assignment; if there is a newer target for it, it must join again first."""
    member = _member(group, request.member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        turn.answer(SyncGroupResponse(error_code=member))
        return
    assert member.classic is not None
    protocol = member.classic.supported_protocols[0]
    error = ErrorCode.NONE
    if request.generation_id != member.epoch:
        error = ErrorCode.ILLEGAL_GENERATION
    elif request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (
        None,
        protocol.name,
    ):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    elif member.state is not MemberState.UNREVOKED and _is_behind(groups, group, member, turn.now):
        groups.await_join(group.group_id, member, turn.now)
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error:
        turn.answer(SyncGroupResponse(error_code=error))
        return
    groups.has_synced(group.group_id, member, turn.now)
    turn.answer(
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(member.assigned, groups.topics, metadata=protocol.metadata),
        )
    )


# Heartbeat


def heartbeat(groups: ConsumerGroups, group: ConsumerGroup, request: HeartbeatRequest, now: Moment) -> ErrorCode:
    """Let a member join again if it can come nearer to its target, or must give up partitions."""
    member = _member(group, request.member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        return member
    if request.generation_id != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    groups.hear(group.group_id, member, now)
    if not (
        member.state is MemberState.UNREVOKED
        or (member.state is MemberState.UNRELEASED and not _waits(group, member))
        or _is_behind(groups, group, member, now)
    ):
        return ErrorCode.NONE
    groups.await_join(group.group_id, member, now)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _is_behind(groups: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, now: Moment) -> bool:
    """True if a join would give the member a newer epoch: not while the group's next target still has to wait."""
    if member.epoch < group.assignment_epoch:
        return True
    return group.assignment_epoch < group.epoch and groups.may_assign(group, now)


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True if another member still owns a partition of the member's target."""
    for topic, indexes in group.target.get(member.member_id, {}).items():
        for index in indexes:
            if group.owner(topic, index) not in (None, member.member_id):
                return True
    return False


# LeaveGroup


def leave(groups: ConsumerGroups, group: ConsumerGroup, request: LeaveGroupRequest, turn: Turn) -> None:
    """Remove members, each by its member id or, as an administrator may, by its instance id alone.

    Administrators remove members of the consumer protocol by this request, too.
    """
    gone: dict[str, ConsumerMember] = {}
    left = []
    for identity in request.members:
        member = _leaving(group, identity)
        error = member if isinstance(member, ErrorCode) else ErrorCode.NONE
        if not isinstance(member, ErrorCode):
            gone[member.member_id] = member
        left.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)
        )
    if gone:
        groups.remove(group, list(gone.values()), turn.now, turn.out)
    turn.answer(LeaveGroupResponse(members=left))


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember | ErrorCode:
    if identity.member_id or identity.group_instance_id is None:
        return _by_ids(group, identity.member_id, identity.group_instance_id)
    return group.static_member(identity.group_instance_id) or ErrorCode.UNKNOWN_MEMBER_ID


def _by_ids(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember | ErrorCode:
    """A member of either protocol, by its ids."""
    if instance_id is None:
        return group.members.get(member_id) or ErrorCode.UNKNOWN_MEMBER_ID
    member = group.static_member(instance_id)
    if member is not None and member.member_id != member_id:
        return ErrorCode.FENCED_INSTANCE_ID
    return member or ErrorCode.UNKNOWN_MEMBER_ID


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember | ErrorCode:
    """A member that speaks the classic protocol, by its ids."""
    member = _by_ids(group, member_id, instance_id)
    if isinstance(member, ErrorCode) or member.classic is not None:
        return member
    return ErrorCode.UNKNOWN_MEMBER_ID
