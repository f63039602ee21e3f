"""Heartbeat (key 12, versions 0 to 4): a member says that it lives, and hears whether it should join again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """While the groups are loading every member is taken to be one: it keeps its assignment, as Kafka lets it."""
    answer: HeartbeatResponse | ErrorCode = await call.node.groups.ask(
        request.group_id, lambda shard, ticket, now: shard.heartbeat(request, ticket, now)
    )
    if isinstance(answer, HeartbeatResponse):
        return answer
    if answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.group_id:
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=answer)
