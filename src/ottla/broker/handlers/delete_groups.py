"""DeleteGroups (key 42, versions 0 to 2): delete empty groups with all their offsets (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.waiting import A_TURN, next_turn
from ottla.kernel.errors import ErrorCode
from ottla.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    response = DeleteGroupsResponse()
    for number, group_id in enumerate(dict.fromkeys(request.groups_names), 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        response.results.append(await _delete(call, group_id))
    return response


async def _delete(call: Call, group_id: str) -> DeletableGroupResult:
    answer: DeletableGroupResult | ErrorCode = await call.node.groups.ask(
        group_id, lambda shard, ticket, _: shard.delete_group(group_id, ticket)
    )
    return DeletableGroupResult(group_id=group_id, error_code=answer) if isinstance(answer, ErrorCode) else answer
