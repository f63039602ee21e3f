"""ConsumerGroupDescribe (key 69, versions 0 and 1): state, epochs and members of groups of the consumer protocol.

KIP-848; version 1 says of which protocol a member is (KIP-1099). A group that is named several times is answered once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.operations import allowed_operations
from ottla.broker.waiting import A_TURN, next_turn
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


async def handle(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    response = ConsumerGroupDescribeResponse()
    for number, group_id in enumerate(dict.fromkeys(request.group_ids), 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        group = await _describe(call, group_id)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = allowed_operations(call, ResourceKind.GROUP, group_id)
        response.groups.append(group)
    return response


async def _describe(call: Call, group_id: str) -> DescribedGroup:
    if not call.node.has_consumer_groups:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    answer: DescribedGroup | ErrorCode = await call.node.groups.ask(
        group_id, lambda shard, ticket, _: shard.describe_consumer_group(group_id, ticket)
    )
    if isinstance(answer, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=answer)
    if not all(call.may(Operation.DESCRIBE, ResourceKind.TOPIC, name) for name in sorted(_topics(answer))):
        return DescribedGroup(
            group_id=group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=_HIDDEN_TOPICS
        )
    return answer


def _topics(group: DescribedGroup) -> set[str]:
    """The names of all topics that the answer tells of."""
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
