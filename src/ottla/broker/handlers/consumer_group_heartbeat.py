"""ConsumerGroupHeartbeat (key 68, versions 0 and 1): a member of a consumer group joins, stays, or leaves (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import caller_of
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    if not call.node.has_consumer_groups:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not call.may(Operation.READ, ResourceKind.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = request.subscribed_topic_names or ()
    if not all(call.may(Operation.DESCRIBE, ResourceKind.TOPIC, name) for name in names):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    caller = caller_of(call)
    answer: ConsumerGroupHeartbeatResponse | ErrorCode = await call.node.groups.ask(
        request.group_id, lambda shard, ticket, now: shard.consumer_heartbeat(request, caller, ticket, now)
    )
    return ConsumerGroupHeartbeatResponse(error_code=answer) if isinstance(answer, ErrorCode) else answer
