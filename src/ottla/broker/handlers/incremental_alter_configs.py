"""IncrementalAlterConfigs (key 44, versions 0 and 1): set, delete, append to, subtract from options of a resource.

KIP-339. Unlike in Apache Kafka, which stores it, an unknown option of a broker is an error.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.requests.config_edits import Edit, alter
from ottla.broker.waiting import A_TURN, next_turn
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    response = IncrementalAlterConfigsResponse()
    for number, resource in enumerate(request.resources, 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        kind, name = resource.resource_type, resource.resource_name
        error: ApiError | None = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        if times[kind, name] == 1:
            edits = [Edit(one.name, one.config_operation, one.value) for one in resource.configs]
            error = await alter(call, kind, name, edits, replace=False, validate_only=request.validate_only)
        response.responses.append(
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                resource_type=kind,
                resource_name=name,
            )
        )
    return response
