"""JoinGroup of the classic protocol: decides which client may join, under which id, and whether a rebalance begins.

Called by shard.py; the rebalance that follows a join is in rebalance.py.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.groups.deadlines import DeadlineKey, DeadlineKind
from ottla.groups.entries import writable
from ottla.groups.group import Group, GroupState, Member
from ottla.groups.rebalance import Rebalances, answer_sync, joined
from ottla.groups.values import Caller, GroupDecision, Moment, Turn
from ottla.kernel.errors import ErrorCode
from ottla.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.messages.sync_group import SyncGroupResponse

_MEMBER_ID_REQUIRED_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9
_UUID_LENGTH = 36


class Joins:
    """The joins of one shard. `new_suffix` gives a fresh UUID's text for the ids of new members."""

    def __init__(self, rebalances: Rebalances, new_suffix: Callable[[], str]) -> None:
        self._rebalances = rebalances
        self._new_suffix = new_suffix

    def join(self, group: Group, request: JoinGroupRequest, turn: Turn) -> None:
        if turn.caller.version == 0:
            request.rebalance_timeout_ms = request.session_timeout_ms
        member_id = request.member_id
        if not _writable(request, turn.caller):
            turn.answer(JoinGroupResponse(error_code=ErrorCode.INVALID_REQUEST, member_id=member_id))
        elif not self._has_room(group, member_id):
            group.remove(member_id)
            self._rebalances.deadlines.cancel(DeadlineKey(DeadlineKind.SESSION, group.group_id, member_id))
            turn.answer(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(request.protocol_type, request.protocols):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            turn.answer(JoinGroupResponse(error_code=error, member_id=member_id))
        elif not member_id:
            self._join_new(group, request, turn)
        elif member_id in group.pending and request.group_instance_id is None:
            self._add(group, request, member_id, turn)
        else:
            self._join_again(group, request, turn)

    def _has_room(self, group: Group, member_id: str) -> bool:
        """True if the member has room; while members gather, those that wait count, so the last are refused."""
        most = self._rebalances.settings.max_size
        member = group.members.get(member_id)
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.joining is not None) or group.joining < most
        return member is not None or len(group.members) < most

    # A member without an id

    def _join_new(self, group: Group, request: JoinGroupRequest, turn: Turn) -> None:
        instance_id = request.group_instance_id
        new_id = f"{turn.caller.client_id if instance_id is None else instance_id}-{self._new_suffix()}"
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(group, request, new_id, turn)
        elif instance_id is None and turn.caller.version >= _MEMBER_ID_REQUIRED_SINCE:
            # KIP-394: a client that never comes back with its id leaves nothing behind but a name.
            group.pending[new_id] = None
            self._rebalances.expect(group, new_id, request.session_timeout_ms, turn.now)
            turn.answer(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=new_id))
        else:
            self._add(group, request, new_id, turn)

    def _add(self, group: Group, request: JoinGroupRequest, member_id: str, turn: Turn) -> None:
        member = Member(
            member_id,
            instance_id=request.group_instance_id,
            client_id=turn.caller.client_id,
            client_host=turn.caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
        )
        member.is_new = True
        member.joining = turn.ticket
        if group.state is GroupState.PREPARING_REBALANCE and group.initial_wait is not None:
            group.member_added = True
        group.add(member, request.protocol_type)
        # It does not heartbeat before its first answer, and a client that gave up cannot be told from one that
        # waits: so its JoinGroup has a time limit of its own.
        self._rebalances.expect(group, member_id, self._rebalances.settings.new_member_join_timeout_ms, turn.now)
        self._rebalances.prepare_or_complete(group, turn.now, turn.out)

    # A member with an id

    def _join_again(self, group: Group, request: JoinGroupRequest, turn: Turn) -> None:
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            turn.answer(JoinGroupResponse(error_code=error, member_id=request.member_id, protocol_name=None))
            return
        member = group.members[request.member_id]
        unchanged = member.protocols == request.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and unchanged:
            # Most likely the earlier answer was lost.
            turn.answer(joined(group, member.member_id))
        elif group.state is GroupState.STABLE and unchanged and group.leader != member.member_id:
            turn.answer(joined(group, member.member_id))
        else:
            # A leader that joins again wants a rebalance: it has seen a change that members' metadata does not show.
            self._update(group, member, request)
            self._rebalances.park_join(group, member, turn.ticket, turn.out)
            self._rebalances.prepare_or_complete(group, turn.now, turn.out)

    def _update(self, group: Group, member: Member, request: JoinGroupRequest) -> None:
        group.update(
            member,
            request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
        )

    # A static member that comes back (KIP-345)

    def _replace_static(self, group: Group, request: JoinGroupRequest, new_id: str, turn: Turn) -> None:
        """Put the instance under a new id; the old id is fenced. A stable group goes on if nothing else changes."""
        assert request.group_instance_id is not None
        old_id = group.static_members[request.group_instance_id]
        leader_before = group.leader
        member = group.members[old_id]
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self._rebalances.answer_join(
            group, member, turn.out, JoinGroupResponse(error_code=fenced, member_id=old_id, protocol_name=None)
        )
        answer_sync(member, turn.out, SyncGroupResponse(error_code=fenced))
        put_back = self._restorer(group, member, old_id, new_id)
        self._rename(group, member, old_id, new_id, turn.now)
        member.is_new = False
        self._update(group, member, request)
        if group.state is not GroupState.STABLE:
            self._rebalances.park_join(group, member, turn.ticket, turn.out)
            self._rebalances.prepare_or_complete(group, turn.now, turn.out)
        elif group.elected_protocol() != group.protocol_name:
            self._rebalances.park_join(group, member, turn.ticket, turn.out)
            self._rebalances.prepare(group, turn.now, turn.out)
        else:
            assignments = {each.member_id: each.assignment for each in group.members.values()}
            turn.out.write(group.entry(assignments, wall_ms=turn.now.wall_ms))
            turn.out.if_refused = put_back
            turn.answer(_replaced(group, new_id, leader_before, turn.caller.version))

    def _rename(self, group: Group, member: Member, old_id: str, new_id: str, now: Moment) -> None:
        group.rename(old_id, new_id)
        self._rebalances.deadlines.cancel(DeadlineKey(DeadlineKind.SESSION, group.group_id, old_id))
        self._rebalances.hear(group, member, now)

    def _restorer(
        self, group: Group, member: Member, old_id: str, new_id: str
    ) -> Callable[[Moment, GroupDecision], None]:
        """A function that undoes the replacement if its entries could not be written."""
        protocols = member.protocols
        rebalance_timeout_ms, session_timeout_ms = member.rebalance_timeout_ms, member.session_timeout_ms

        def put_back(now: Moment, _: GroupDecision) -> None:
            group.update(
                member,
                protocols,
                rebalance_timeout_ms=rebalance_timeout_ms,
                session_timeout_ms=session_timeout_ms,
            )
            self._rename(group, member, new_id, old_id, now)

        return put_back


def _writable(request: JoinGroupRequest, caller: Caller) -> bool:
    """True if this member fits into a record: requests may carry longer names than records."""
    suffix = "-" + "0" * _UUID_LENGTH
    names = [caller.client_id + suffix, (request.group_instance_id or "") + suffix, request.protocol_type]
    return all(writable(name) for name in [*names, *(protocol.name for protocol in request.protocols)])


def _replaced(group: Group, new_id: str, leader_before: str | None, version: int) -> JoinGroupResponse:
    """The answer to a static member that came back while the generation goes on.

    By KIP-814 a leader is told to lead but not to assign; a version that cannot say the second is not told the first.
    """
    answer = joined(group, new_id)
    if version >= _SKIP_ASSIGNMENT_SINCE:
        answer.skip_assignment = group.leader == new_id
    else:
        answer.leader = leader_before or ""
        answer.members = []
    return answer
