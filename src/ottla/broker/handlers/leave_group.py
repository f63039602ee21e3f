"""LeaveGroup (key 13, versions 0 to 5): members leave (KIP-345).

Before version 3 a request names one member, and its error is the answer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import caller_of
from ottla.kernel.errors import ErrorCode
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_MEMBERS_SINCE = 3


async def handle(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    if call.api_version < _MEMBERS_SINCE:
        request.members = [MemberIdentity(member_id=request.member_id)]
    caller = caller_of(call)
    answer: LeaveGroupResponse | ErrorCode = await call.node.groups.ask(
        request.group_id, lambda shard, ticket, now: shard.leave_group(request, caller, ticket, now)
    )
    if isinstance(answer, ErrorCode):
        return LeaveGroupResponse(error_code=answer)
    if call.api_version < _MEMBERS_SINCE and answer.members:
        return LeaveGroupResponse(error_code=answer.members[0].error_code)
    return answer
