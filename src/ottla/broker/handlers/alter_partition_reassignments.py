"""AlterPartitionReassignments (key 45, versions 0 and 1): moves partitions to other replicas, or cancels such moves.

It is answered when the reassignment has begun; it ends when the added replicas are in sync (KIP-455).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.waiting import A_TURN, next_turn
from ottla.cluster.commands import AlterReassignment
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.kernel.story import Slot
from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.metadata_log.command_queue import Outcome
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    """Submit all before awaiting the first, so that they share appends."""
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    waiting: list[tuple[ReassignablePartitionResponse, Slot[Outcome]]] = []
    timeout_ms = max(1, request.timeout_ms)
    for topic in request.topics:
        results = ReassignableTopicResponse(name=topic.name)
        for asked in topic.partitions:
            replicas = None if asked.replicas is None else tuple(BrokerId(one) for one in asked.replicas)
            command = AlterReassignment(
                topic.name, asked.partition_index, replicas, request.allow_replication_factor_change
            )
            result = ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)
            waiting.append((result, call.node.follow.submit(command, timeout_ms)))
            results.partitions.append(result)
            if len(waiting) % A_TURN == 0:
                await next_turn(call.node.clock)
        response.responses.append(results)
    for result, slot in waiting:
        outcome = await slot
        if isinstance(outcome, ApiError):
            result.error_code = outcome.code
            if outcome.code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:  # Apache Kafka lets this code speak for itself
                result.error_message = outcome.message
    return response
