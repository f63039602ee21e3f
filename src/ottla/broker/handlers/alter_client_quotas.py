"""AlterClientQuotas (key 49, versions 0 and 1): each entity by itself, all of its quotas or none (KIP-546).

Unlike in Apache Kafka an ip has to be an address, no host name.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.requests.quota_requests import edits_of, entity_of
from ottla.cluster.commands import EditQuotas
from ottla.cluster.decide import decide
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.alter_client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResult,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    commands = [_command(each) for each in request.entries]
    times = Counter(each.entity for each in commands if isinstance(each, EditQuotas))
    response = AlterClientQuotasResponse()
    for entry, command in zip(request.entries, commands, strict=True):
        refused = command if isinstance(command, ApiError) else None
        if isinstance(command, EditQuotas):
            if times[command.entity] > 1:
                refused = ApiError(ErrorCode.INVALID_REQUEST, f"The entity {command.entity} is named twice.")
            else:
                refused = await _edit(call, command, validate_only=request.validate_only)
        response.entries.append(
            AlterClientQuotasResult(
                error_code=ErrorCode.NONE if refused is None else refused.code,
                error_message=None if refused is None else refused.message,
                entity=entry.entity,
            )
        )
    return response


async def _edit(call: Call, command: EditQuotas, *, validate_only: bool) -> ApiError | None:
    if validate_only:
        decided = decide(command, call.node.metadata, call.node.follow.writer())
        return decided if isinstance(decided, ApiError) else None
    outcome = await call.node.follow.submit(command)
    return outcome if isinstance(outcome, ApiError) else None


def _command(entry: AlterClientQuotasEntry) -> EditQuotas | ApiError:
    entity = entity_of(entry.entity)
    if isinstance(entity, ApiError):
        return entity
    edits = edits_of(entity, entry.ops)
    return edits if isinstance(edits, ApiError) else EditQuotas(entity, edits)
