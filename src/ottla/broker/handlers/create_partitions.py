"""CreatePartitions (key 37, versions 0 to 3): more partitions for topics that exist (KIP-195)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.waiting import A_TURN, next_turn
from ottla.cluster.commands import CreatePartitions
from ottla.cluster.decide import decide
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call
    from ottla.broker.requests.client_quotas import Mutations

_QUOTA_SINCE = 3


async def handle(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    charge = call.node.quotas.mutations(call.connection, strict=call.api_version >= _QUOTA_SINCE)
    response = CreatePartitionsResponse()
    for number, topic in enumerate(request.topics, 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        often = times.pop(topic.name, 0)
        if not often:
            continue
        result = CreatePartitionsTopicResult(name=topic.name)
        error: ApiError | None = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        if often == 1:
            error = await _create(call, topic, request, charge)
        if error is not None:
            result.error_code = error.code
            result.error_message = error.message
        response.results.append(result)
    response.throttle_time_ms = call.node.quotas.charged(call.connection, charge)
    return response


async def _create(
    call: Call, topic: CreatePartitionsTopic, request: CreatePartitionsRequest, charge: Mutations
) -> ApiError | None:
    assignment = None
    if topic.assignments is not None:
        assignment = tuple(tuple(BrokerId(one) for one in given.broker_ids) for given in topic.assignments)
    command = CreatePartitions(topic.name, topic.count, assignment)
    if request.validate_only:
        decided = decide(command, call.node.metadata, call.node.follow.writer())
        return decided if isinstance(decided, ApiError) else None
    known = call.node.metadata.topic(topic.name)
    more = 0 if known is None else topic.count - len(known.partitions)
    if more > 0 and (refused := charge.refusal(more)) is not None:
        return refused
    outcome = await call.node.follow.submit(command, max(1, request.timeout_ms))
    return outcome if isinstance(outcome, ApiError) else None
