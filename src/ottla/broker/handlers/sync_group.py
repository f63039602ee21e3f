"""SyncGroup (key 14, versions 0 to 5): the group's leader brings the assignment, every member gets its part.

From version 5 on it names the group's protocol, which is compared (KIP-559).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import caller_of
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_PROTOCOL_NAMED_SINCE = 5


async def handle(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """While groups are loading, a member is told to join again, as in Apache Kafka before 4.0: its rebalance is lost,
    and Java's consumers treat COORDINATOR_LOAD_IN_PROGRESS as fatal here."""
    unnamed = request.protocol_type is None or request.protocol_name is None
    if unnamed and call.api_version >= _PROTOCOL_NAMED_SINCE:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not call.may(Operation.READ, ResourceKind.GROUP, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    caller = caller_of(call)
    answer: SyncGroupResponse | ErrorCode = await call.node.groups.ask(
        request.group_id, lambda shard, ticket, now: shard.sync_group(request, caller, ticket, now)
    )
    if answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.group_id:
        answer = ErrorCode.REBALANCE_IN_PROGRESS
    return SyncGroupResponse(error_code=answer) if isinstance(answer, ErrorCode) else answer
