"""JoinGroup (key 11, versions 0 to 9): join a group, or join it again; answered once all members have joined.

Static members (KIP-345), ids before the first join (KIP-394).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import caller_of
from ottla.kernel.errors import ErrorCode
from ottla.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_NULL_PROTOCOL_SINCE = 7


async def handle(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    caller = caller_of(call)
    answer: JoinGroupResponse | ErrorCode = await call.node.groups.ask(
        request.group_id, lambda shard, ticket, now: shard.join_group(request, caller, ticket, now)
    )
    if isinstance(answer, ErrorCode):
        answer = JoinGroupResponse(error_code=answer, member_id=request.member_id)
    if not answer.protocol_name:
        answer.protocol_name = None if call.api_version >= _NULL_PROTOCOL_SINCE else ""
    return answer
