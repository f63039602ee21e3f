"""Heartbeat (key 12, versions 0 to 4): a member reports that it is alive, and learns whether it must join again.

Static members from version 3 on (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """While groups are loading, every heartbeat is accepted, so that members keep their assignment, as in Kafka."""
    answer: HeartbeatResponse | ErrorCode = await call.node.groups.ask(
        request.group_id, lambda shard, ticket, now: shard.heartbeat(request, ticket, now)
    )
    if isinstance(answer, HeartbeatResponse):
        return answer
    if answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.group_id:
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=answer)
