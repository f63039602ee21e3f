"""ListGroups (key 16, versions 0 to 5): the groups that this broker coordinates; clients ask every broker.

Filters by state from version 4 on (KIP-518), by type from version 5 on (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    response = ListGroupsResponse()
    answers = await call.node.groups.ask_all(lambda shard, ticket, _: shard.list_groups(request, ticket))
    sees_all = call.may(Operation.DESCRIBE, ResourceKind.CLUSTER, CLUSTER_NAME, told=False)
    answer: list[ListedGroup] | ErrorCode
    for answer in answers:
        if not isinstance(answer, ErrorCode):
            response.groups += [
                group
                for group in answer
                if sees_all or call.may(Operation.DESCRIBE, ResourceKind.GROUP, group.group_id, told=False)
            ]
        elif answer is not ErrorCode.NOT_COORDINATOR:
            return ListGroupsResponse(error_code=answer)
    return response
