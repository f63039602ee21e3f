"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol.

Comes from shard.py. A leader's assignment is an entry; once it is applied the group is stable.
"""

from __future__ import annotations

from ottla.groups.deadlines import DeadlineKey, DeadlineKind
from ottla.groups.group import Group, GroupState, Member
from ottla.groups.rebalance import Rebalances, answer_sync
from ottla.groups.values import GroupDecision, Moment, Turn
from ottla.kernel.errors import ErrorCode
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(rebalances: Rebalances, group: Group, request: SyncGroupRequest, turn: Turn) -> None:
    """Take a member's request for its assignment, and with the leader's the assignment itself."""
    error = _sync_error(group, request)
    if error:
        turn.answer(SyncGroupResponse(error_code=error))
        return
    member = group.members[request.member_id]
    _synced(rebalances, group, member)
    if group.state is GroupState.STABLE:
        turn.answer(_assigned(group, member.assignment))
        return
    superseded, member.syncing = member.syncing, turn.ticket
    if superseded is not None:
        turn.out.answer(superseded, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    if group.leader == member.member_id:
        _assign(rebalances, group, request, turn.now, turn.out)


def _sync_error(group: Group, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known


def _synced(rebalances: Rebalances, group: Group, member: Member) -> None:
    group.pending_sync.pop(member.member_id, None)
    if not group.pending_sync:
        rebalances.deadlines.cancel(DeadlineKey(DeadlineKind.SYNC, group.group_id))


def _assign(rebalances: Rebalances, group: Group, request: SyncGroupRequest, now: Moment, out: GroupDecision) -> None:
    """Write the assignment and give each waiting member its part; a member that the leader forgot gets nothing."""
    given = {each.member_id: bytes(each.assignment) for each in request.assignments}
    out.write(group.entry(given, wall_ms=now.wall_ms))
    out.if_refused = lambda later, instead: rebalances.prepare(group, later, instead)
    for member in group.members.values():
        if answer_sync(member, out, _assigned(group, given.get(member.member_id, b""))):
            # No heartbeat came while the request waited here, and the member's deadline may have passed meanwhile.
            rebalances.hear(group, member, now)


def _assigned(group: Group, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def heartbeat(rebalances: Rebalances, group: Group, request: HeartbeatRequest, now: Moment) -> ErrorCode:
    """Answer a member's heartbeat; during a rebalance it is to join again."""
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    rebalances.hear(group, group.members[request.member_id], now)
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(rebalances: Rebalances, group: Group, request: LeaveGroupRequest, turn: Turn) -> None:
    """Remove members, each by its member id or, as an administrator may, by its instance id alone."""
    left = LeaveGroupResponse(
        members=[_leave_one(rebalances, group, identity, turn.out) for identity in request.members]
    )
    if any(not member.error_code for member in left.members):
        if group.state is GroupState.PREPARING_REBALANCE:
            rebalances.complete_if_all_joined(group, turn.now, turn.out)
        elif group.state is not GroupState.EMPTY:
            rebalances.prepare(group, turn.now, turn.out)
    turn.answer(left)


def nobody_left(request: LeaveGroupRequest) -> LeaveGroupResponse:
    """The answer where the group does not exist."""
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for identity in request.members
        ]
    )


def _leave_one(rebalances: Rebalances, group: Group, identity: MemberIdentity, out: GroupDecision) -> MemberResponse:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    error = ErrorCode.NONE
    if not member_id:
        known = None if instance_id is None else group.static_members.get(instance_id)
        if known is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            rebalances.dismiss(group, group.members[known], out)
    elif member_id in group.pending:
        group.remove(member_id)
        rebalances.deadlines.cancel(DeadlineKey(DeadlineKind.SESSION, group.group_id, member_id))
    else:
        error = group.check_member(member_id, instance_id)
        if not error:
            rebalances.dismiss(group, group.members[member_id], out)
    return MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=error)
