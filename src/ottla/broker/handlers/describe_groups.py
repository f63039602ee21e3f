"""DescribeGroups (key 15, versions 0 to 6): state and members of groups, one after the other.

Allowed operations from version 3 on (KIP-430), static members from version 4 on (KIP-345). A group that does not exist
is answered as dead and without members, in version 6 also as GROUP_ID_NOT_FOUND (KIP-1043).
A group that is named several times is answered once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import caller_of
from ottla.broker.requests.operations import allowed_operations
from ottla.broker.waiting import A_TURN, next_turn
from ottla.kernel.acls import ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_OPERATIONS_SINCE = 3


async def handle(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    described: list[DescribedGroup] = []
    for number, group_id in enumerate(dict.fromkeys(request.groups), 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        described.append(await _describe(call, group_id))
    if request.include_authorized_operations and call.api_version >= _OPERATIONS_SINCE:
        for group in described:
            if not group.error_code:
                group.authorized_operations = allowed_operations(call, ResourceKind.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=described)


async def _describe(call: Call, group_id: str) -> DescribedGroup:
    caller = caller_of(call)
    answer: DescribedGroup | ErrorCode = await call.node.groups.ask(
        group_id, lambda shard, ticket, _: shard.describe_group(group_id, caller, ticket)
    )
    return DescribedGroup(group_id=group_id, error_code=answer) if isinstance(answer, ErrorCode) else answer
