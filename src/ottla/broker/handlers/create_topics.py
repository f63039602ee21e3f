"""CreateTopics (key 19, versions 2 to 7): new topics, each decided by itself (KIP-4).

From version 5 on the answer has their configuration (KIP-525), from version 7 on their ids (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.waiting import A_TURN, next_turn
from ottla.cluster.commands import Assignment, CreateTopic
from ottla.cluster.decide import decide
from ottla.cluster.topics import name_error
from ottla.config.describe import describe_topic
from ottla.config.resolve import topic_problems
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import BrokerId, TopicId, new_id
from ottla.kernel.story import Slot
from ottla.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.metadata.entries import Body, PartitionsCreated

if TYPE_CHECKING:
    from ottla.broker.metadata_log.command_queue import Outcome
    from ottla.broker.requests.call import Call
    from ottla.broker.requests.client_quotas import Mutations


_CONFIGS_SINCE = 5
_QUOTA_SINCE = 6
MOST_TOPICS = 2000
"""The most topics in one request. Apache Kafka refuses more than 10,000 partitions with the same message."""
_TOO_MANY = ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


class _Asked(NamedTuple):
    """A submitted topic: its command and the slot of its outcome."""

    command: CreateTopic
    outcome: Slot[Outcome]


async def handle(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Submit all before waiting for the first, so that they share appends."""
    times = Counter(topic.name for topic in request.topics)
    if len(times) > MOST_TOPICS:
        return CreateTopicsResponse(topics=[_refused(name, _TOO_MANY) for name in times])
    results: list[CreatableTopicResult | _Asked] = []
    charge = call.node.quotas.mutations(call.connection, strict=call.api_version >= _QUOTA_SINCE)
    for number, topic in enumerate(request.topics, 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        often = times.pop(topic.name, 0)
        if often > 1:
            results.append(_refused(topic.name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
        if often != 1:
            continue
        command = _command(call, topic)
        if isinstance(command, ApiError):
            results.append(_refused(topic.name, command))
        elif request.validate_only:
            decided = decide(command, call.node.metadata, call.node.follow.writer())
            results.append(_result(call, command, decided))
        elif (refused := _over_quota(call, charge, command)) is not None:
            results.append(_refused(topic.name, refused))
        else:
            results.append(_Asked(command, call.node.follow.submit(command, max(1, request.timeout_ms))))
    response = CreateTopicsResponse(throttle_time_ms=call.node.quotas.charged(call.connection, charge))
    for result in results:
        if isinstance(result, _Asked):
            outcome = await result.outcome
            decided = outcome if isinstance(outcome, ApiError) else list(outcome.entries)
            response.topics.append(_result(call, result.command, decided))
        else:
            response.topics.append(result)
    return response


def _over_quota(call: Call, charge: Mutations, command: CreateTopic) -> ApiError | None:
    """The refusal by the client's quota; a topic that exists is refused without it."""
    if call.node.metadata.name_taken(command.name) is not None:
        return None
    return charge.refusal(len(command.assignment) if command.assignment else command.partitions)


def _command(call: Call, topic: CreatableTopic) -> CreateTopic | ApiError:
    """The command for a topic, with the broker's defaults for everything that the client left open."""
    wrong = name_error(topic.name)
    if wrong is not None:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {wrong}")
    configs: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            return ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    if (problem := topic_problems(configs, call.node.layers)) is not None:
        return ApiError(ErrorCode.INVALID_CONFIG, problem)
    topic_id = TopicId(new_id(call.node.entropy))
    if topic.assignments:
        assignment = _assignment(topic.assignments)
        if isinstance(assignment, ApiError):
            return assignment
        return CreateTopic(
            topic.name,
            topic_id,
            partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignment=assignment,
            configs=tuple(configs.items()),
        )
    broker = call.node.config
    return CreateTopic(
        topic.name,
        topic_id,
        partitions=broker.num_partitions if topic.num_partitions == -1 else topic.num_partitions,
        replication_factor=(
            broker.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
        ),
        configs=tuple(configs.items()),
    )


def _assignment(given: list[CreatableReplicaAssignment]) -> Assignment | ApiError:
    by_index: dict[int, tuple[BrokerId, ...]] = {}
    for one in given:
        if one.partition_index in by_index:
            return ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {one.partition_index}",
            )
        by_index[one.partition_index] = tuple(BrokerId(broker_id) for broker_id in one.broker_ids)
    if sorted(by_index) != list(range(len(by_index))):
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return tuple(by_index[index] for index in range(len(by_index)))


def _result(call: Call, command: CreateTopic, decided: list[Body] | ApiError) -> CreatableTopicResult:
    if isinstance(decided, ApiError):
        return _refused(command.name, decided)
    if not call.may(Operation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, command.name, told=False):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED if call.api_version >= _CONFIGS_SINCE else ErrorCode.NONE
        return CreatableTopicResult(
            name=command.name,
            topic_id=command.topic_id,
            error_message=None,
            topic_config_error_code=error,
            num_partitions=-1,
            replication_factor=-1,
            configs=None,
        )
    partitions = [one for body in decided if isinstance(body, PartitionsCreated) for one in body.partitions]
    described = describe_topic(dict(command.configs), call.node.layers) if call.api_version >= _CONFIGS_SINCE else []
    return CreatableTopicResult(
        name=command.name,
        topic_id=command.topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas) if partitions else -1,
        configs=[
            CreatableTopicConfigs(
                name=one.name,
                value=one.value,
                read_only=one.read_only,
                config_source=one.source,
                is_sensitive=one.sensitive,
            )
            for one in described
        ],
    )


def _refused(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=[])
