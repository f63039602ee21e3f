"""DeleteTopics (key 20, versions 1 to 6): topics go by name (KIP-4), or from version 6 on by id (KIP-516).

Unlike in Apache Kafka, internal topics, those of a registry, and those with `deletion.protection=true` are refused.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.requests.look_again import look_again
from ottla.broker.waiting import A_TURN, next_turn
from ottla.cluster.commands import DeleteTopic
from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.kernel.story import Slot
from ottla.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.metadata.state import Metadata, Topic

if TYPE_CHECKING:
    from ottla.broker.metadata_log.command_queue import Outcome
    from ottla.broker.requests.call import Call
    from ottla.broker.requests.client_quotas import Mutations


_QUOTA_SINCE = 5
log = logging.getLogger("ottla.topics")
_LOST = {
    "__consumer_offsets": "the committed offsets of all groups are gone, and consumers begin where auto.offset.reset "
    "says. Transactions that were to commit offsets may stay open",
    "__transaction_state": "the state of all transactions is gone. Those that were open stay open, and hold back "
    "readers of committed records: `ottla transaction find-hanging` lists them, and `ottla transaction abort "
    "TOPIC:PARTITION --start-offset OFFSET` ends each",
}


class _Asked(NamedTuple):
    result: DeletableTopicResult
    outcome: Slot[Outcome] | None


async def handle(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    response = DeleteTopicsResponse()
    states = _within_rights(
        call, request.topics or [DeleteTopicState(name=name) for name in request.topic_names], response
    )
    times = Counter((state.name, state.topic_id) for state in states)
    named_too = _named_too(call.node.metadata, states)
    unknown = any(isinstance(_find(call.node.metadata, state), ApiError) for state in states)
    unsure = await look_again(call) if unknown else None
    asked: list[_Asked] = []
    charge = call.node.quotas.mutations(call.connection, strict=call.api_version >= _QUOTA_SINCE)
    for number, state in enumerate(states, 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        often = times.pop((state.name, state.topic_id), 0)
        if often and state.name is None and state.topic_id in named_too:
            continue  # its name is refused
        if often:
            asked.append(_ask(call, state, request.timeout_ms, unsure, charge, repeated=often > 1, named_too=named_too))
    response.throttle_time_ms = call.node.quotas.charged(call.connection, charge)
    for result, slot in asked:
        if slot is not None:
            outcome = await slot
            if isinstance(outcome, ApiError):
                _refuse(result, outcome)
            elif (lost := _LOST.get(result.name or "")) is not None:
                log.warning("the internal topic %s was deleted by a request: %s", result.name, lost)
        response.responses.append(result)
    return response


def _within_rights(
    call: Call, states: Sequence[DeleteTopicState], response: DeleteTopicsResponse
) -> Sequence[DeleteTopicState]:
    """The topics that the caller may delete; the others are answered, before anything is said of what there is."""
    if call.may(Operation.DELETE, ResourceKind.CLUSTER, CLUSTER_NAME, told=False):
        return states
    kept: list[DeleteTopicState] = []
    denied: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    for state in states:
        found = None if state.name is not None else _find(call.node.metadata, state)
        name = found.name if isinstance(found, Topic) else state.name
        if name is None:
            kept.append(state)  # an unknown id
            continue
        sees = call.may(Operation.DESCRIBE, ResourceKind.TOPIC, name, told=False)
        if call.may(Operation.DELETE, ResourceKind.TOPIC, name) and (sees or state.name is None):
            kept.append(state)
            continue
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        denied[state.name, state.topic_id] = DeletableTopicResult(
            name=name if sees else state.name, topic_id=state.topic_id, error_code=code, error_message=code.message
        )
    response.responses += denied.values()
    return kept


def _named_too(metadata: Metadata, states: Sequence[DeleteTopicState]) -> frozenset[TopicId]:
    """The ids of topics that the request names both by id and, elsewhere, by name."""
    ids = {state.topic_id for state in states if state.name is None}
    named = [_find(metadata, state) for state in states if state.name is not None]
    return frozenset(topic.topic_id for topic in named if isinstance(topic, Topic) and topic.topic_id in ids)


def _ask(
    call: Call,
    state: DeleteTopicState,
    timeout_ms: int,
    unsure: ApiError | None,
    charge: Mutations,
    *,
    repeated: bool,
    named_too: frozenset[TopicId],
) -> _Asked:
    result = DeletableTopicResult(name=state.name, topic_id=state.topic_id, error_message=None)
    topic = _find(call.node.metadata, state)
    if isinstance(topic, ApiError) and topic.code != ErrorCode.INVALID_REQUEST:
        topic = unsure or topic
    if repeated:
        topic = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    elif isinstance(topic, Topic) and topic.topic_id in named_too:
        result.topic_id = topic.topic_id
        topic = ApiError(ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")
    elif not call.node.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if call.api_version >= 3 else ErrorCode.INVALID_REQUEST
        topic = ApiError(code, "Topic deletion is disabled.")
    if isinstance(topic, Topic):
        topic = charge.refusal(len(topic.partitions)) or topic
    if isinstance(topic, ApiError):
        _refuse(result, topic)
        return _Asked(result, None)
    result.name = topic.name
    result.topic_id = topic.topic_id
    return _Asked(result, call.node.follow.submit(DeleteTopic(topic.name, topic.topic_id), max(1, timeout_ms)))


def _find(metadata: Metadata, state: DeleteTopicState) -> Topic | ApiError:
    by_id = state.topic_id != NO_TOPIC_ID
    if state.name is not None and by_id:
        return ApiError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if state.name is not None:
        return metadata.topic(state.name) or ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    if by_id:
        return metadata.topic_by_id(state.topic_id) or ApiError(
            ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
        )
    return ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")


def _refuse(result: DeletableTopicResult, error: ApiError) -> None:
    result.error_code = error.code
    result.error_message = error.message
