"""Administration as stories: topics, partitions, records, configurations.

Results are Kafka's own message parts; a resource that failed has an `ApiError` in its place. `Admin` has the stories as
methods on both faces, with their docstrings: examples there call the blocking method.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.client.admin.given import config_text, require_number
from ottla.client.consume.offsets import by_topic
from ottla.client.core.effects import Ask, VersionsOf
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ClientError, refused
from ottla.client.model import Broker, Destination
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition, topic_id_text
from ottla.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_OPERATION_MS = 30_000


class ResourceType(IntEnum):
    """Kinds of things that have a configuration."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The place that a configuration value comes from: `config_source` of a described one."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigOperation(IntEnum):
    """A change of one configuration. APPEND and SUBTRACT are for lists: the value's items are added or taken out."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Resource(NamedTuple):
    """A thing with a configuration: a topic or group by its name, a broker by its id as text (empty: all brokers)."""

    type: ResourceType
    name: str


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves a number to the broker. `assignments`: partition -> broker ids, instead of both."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | int | float] = {}
    assignments: Mapping[int, Sequence[int]] = {}


async def create_topics(
    plan: ClusterPlan, topics: Collection[NewTopic], *, validate_only: bool = False, timeout_ms: int = _OPERATION_MS
) -> dict[str, CreatableTopicResult | ApiError]:
    """Create topics, each by itself, so that some may fail; `validate_only` checks and creates nothing.

    Errors are TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION for a name, INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT and INVALID_CONFIG.

        from ottla.client import ApiError, NewTopic

        with Admin("localhost:9092") as admin:
            for name, result in admin.create_topics([NewTopic("boats", 2), NewTopic("no/name")]).items():
                print(name, result.code.name if isinstance(result, ApiError) else result.num_partitions)
    """
    creatable = [_creatable(topic) for topic in topics]
    least = 4 if any(topic.num_partitions < 0 or topic.replication_factor < 0 for topic in creatable) else 2
    request = CreateTopicsRequest(topics=creatable, timeout_ms=timeout_ms, validate_only=validate_only)
    response = await plan.ask_controller(
        CreateTopicsRequest,
        CreateTopicsResponse,
        lambda _: request,
        lambda answer: next((topic.error_code for topic in answer.topics), 0),
        min_version=least,
        timeout_ms=timeout_ms + plan.settings.request_timeout_ms,
    )
    return {
        result.name: refused(result.error_code, f"topic {result.name!r}", result.error_message)
        if result.error_code
        else result
        for result in response.topics
    }


def _creatable(topic: NewTopic) -> CreatableTopic:
    given = bool(topic.assignments)
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if given else require_number("partitions", topic.partitions),
        replication_factor=-1 if given else require_number("replication_factor", topic.replication_factor),
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=config_text(name, value)) for name, value in topic.configs.items()
        ],
    )


async def delete_topics(
    plan: ClusterPlan, names: Collection[str] = (), *, ids: Collection[bytes] = (), timeout_ms: int = _OPERATION_MS
) -> dict[str | bytes, ApiError | None]:
    """Delete topics by name or id; the result is keyed as they were given, None for those that are deleted.

    An id is 16 bytes, as in `TopicView.topic_id`. Errors are UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID.

        with Admin("localhost:9092") as admin:
            print(admin.delete_topics(["boats", "never-made"]))
    """

    def build(version: int) -> DeleteTopicsRequest:
        if version < 6:
            return DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
        states = [DeleteTopicState(name=name) for name in names]
        states += [DeleteTopicState(topic_id=topic_id) for topic_id in ids]
        return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

    response = await plan.ask_controller(
        DeleteTopicsRequest,
        DeleteTopicsResponse,
        build,
        lambda answer: next((result.error_code for result in answer.responses), 0),
        min_version=6 if ids else 1,
        timeout_ms=timeout_ms + plan.settings.request_timeout_ms,
    )
    outcome: dict[str | bytes, ApiError | None] = {}
    for result in response.responses:
        topic_id = bytes(result.topic_id)
        key = topic_id if topic_id in ids or result.name is None else result.name
        if result.name is not None:
            plan.metadata.doubt(result.name)
        about = f"topic id {topic_id_text(topic_id)}" if result.name is None else f"topic {result.name!r}"
        outcome[key] = refused(result.error_code, about, result.error_message) if result.error_code else None
    return outcome


async def create_partitions(
    plan: ClusterPlan,
    counts: Mapping[str, int],
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    *,
    validate_only: bool = False,
    timeout_ms: int = _OPERATION_MS,
) -> dict[str, ApiError | None]:
    """Raise the number of partitions of each topic to `counts`; None for those that were raised.

    `assignments` gives the brokers of each new partition, the preferred leader first; `validate_only` checks and
    changes nothing. Errors are UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS where it would not be more,
    INVALID_REPLICA_ASSIGNMENT.

        with Admin("localhost:9092") as admin:
            print(admin.create_partitions({"ships": 4}))
    """
    placed = assignments or {}
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=[CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in placed[name]]
                if name in placed
                else None,
            )
            for name, count in counts.items()
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    response = await plan.ask_controller(
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        lambda _: request,
        lambda answer: next((result.error_code for result in answer.results), 0),
        timeout_ms=timeout_ms + plan.settings.request_timeout_ms,
    )
    for name in counts:
        plan.metadata.doubt(name)
    return {
        result.name: refused(result.error_code, f"topic {result.name!r}", result.error_message)
        if result.error_code
        else None
        for result in response.results
    }


async def describe_topics(
    plan: ClusterPlan, names: Collection[str]
) -> dict[str, DescribeTopicPartitionsResponseTopic | ApiError]:
    """Partitions with their eligible leader replicas; UnsupportedVersion on brokers before Kafka 3.8."""
    found: dict[str, DescribeTopicPartitionsResponseTopic | ApiError] = {}
    topics = [TopicRequest(name=name) for name in sorted(names)]
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=topics, cursor=cursor)
        response = await plan.ask_any(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, _fixed(request))
        for topic in response.topics:
            name = topic.name or ""
            earlier = found.get(name)
            if topic.error_code:
                found[name] = refused(topic.error_code, f"topic {name!r}")
            elif isinstance(earlier, DescribeTopicPartitionsResponseTopic):
                earlier.partitions += topic.partitions
            else:
                found[name] = topic
        cursor = response.next_cursor
        if cursor is None:
            return found


async def describe_cluster(plan: ClusterPlan) -> DescribeClusterResponse:
    """Cluster id, controller and brokers."""
    response = await plan.ask_any(DescribeClusterRequest, DescribeClusterResponse, lambda _: DescribeClusterRequest())
    if response.error_code:
        raise refused(response.error_code, "describing the cluster", response.error_message)
    return response


async def delete_records(
    plan: ClusterPlan, before: Mapping[TopicPartition, int], *, timeout_ms: int = _OPERATION_MS
) -> dict[TopicPartition, int | Exception]:
    """Delete all below each offset (-1: everything visible); the new first offsets, or what went wrong.

    OFFSET_OUT_OF_RANGE for an offset beyond the high watermark.

        with Admin("localhost:9092") as admin:
            print(admin.delete_records({TopicPartition("ships", 0): -1}))
    """

    def ask(where: Destination, partitions: Sequence[TopicPartition]) -> Ask[DeleteRecordsResponse]:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=before[TopicPartition(topic, index)])
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)
        wait_ms = timeout_ms + plan.settings.request_timeout_ms
        return Ask(where, DeleteRecordsRequest, DeleteRecordsResponse, lambda _: request, timeout_ms=wait_ms)

    def read(response: DeleteRecordsResponse) -> dict[TopicPartition, int | ApiError]:
        return {
            TopicPartition(topic.name, part.partition_index): refused(
                part.error_code, f"deleting records of {topic.name}-{part.partition_index}"
            )
            if part.error_code
            else part.low_watermark
            for topic in response.topics
            for part in topic.partitions
        }

    return await plan.per_leader(list(before), ask, read)


async def describe_configs(
    plan: ClusterPlan,
    resources: Collection[Resource],
    *,
    keys: Collection[str] | None = None,
    synonyms: bool = False,
    documentation: bool = False,
) -> dict[Resource, list[DescribeConfigsResourceResult] | Exception]:
    """Every configuration of each resource, or those in `keys`; brokers are asked themselves.

    A broker that cannot be asked has its error in its place, if there are other resources.

    `synonyms` adds where each value may come from, `documentation` what it means.

        from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType

        with Admin("localhost:9092") as admin:
            topic = Resource(ResourceType.TOPIC, "ships")
            for config in admin.describe_configs([topic], keys=["retention.ms"])[topic]:
                print(config.name, config.value)
    """
    groups: dict[int | None, list[Resource]] = {}
    for resource in resources:
        groups.setdefault(_keeper(resource), []).append(resource)
    found: dict[Resource, list[DescribeConfigsResourceResult] | Exception] = {}
    for keeper, members in groups.items():
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=int(member.type),
                    resource_name=member.name,
                    configuration_keys=None if keys is None else list(keys),
                )
                for member in members
            ],
            include_synonyms=synonyms,
            include_documentation=documentation,
        )
        try:
            response = await _ask_keeper(plan, keeper, request, DescribeConfigsResponse, 3 if documentation else 1)
        except (ApiError, ClientError) as fault:
            if len(groups) == 1:
                raise
            found |= dict.fromkeys(members, fault)
            continue
        for result in response.results:
            resource = Resource(ResourceType(result.resource_type), result.resource_name)
            about = f"{resource.type.name.lower()} {resource.name!r}"
            found[resource] = (
                refused(result.error_code, about, result.error_message) if result.error_code else result.configs
            )
    return found


async def alter_configs(
    plan: ClusterPlan,
    changes: Mapping[Resource, Collection[tuple[str, ConfigOperation, str | None]]],
    *,
    validate_only: bool = False,
) -> dict[Resource, Exception | None]:
    """Change single configurations, each by name, operation and value (None to delete it); None: changed.

    `validate_only` checks and changes nothing. INVALID_CONFIG where a value will not do. A broker that cannot be asked
    has its error in its place, if there are other resources.

        with Admin("localhost:9092") as admin:
            print(admin.alter_configs({topic: [("retention.ms", ConfigOperation.SET, "7200000")]}))
    """
    outcome: dict[Resource, Exception | None] = {}
    groups: dict[int | None, list[Resource]] = {}
    for resource in changes:
        groups.setdefault(_keeper(resource), []).append(resource)
    for keeper, members in groups.items():
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=int(member.type),
                    resource_name=member.name,
                    configs=[
                        AlterableConfig(name=name, config_operation=int(operation), value=config_text(name, value))
                        for name, operation, value in changes[member]
                    ],
                )
                for member in members
            ],
            validate_only=validate_only,
        )
        try:
            response = await _ask_keeper(plan, keeper, request, IncrementalAlterConfigsResponse, 0)
        except (ApiError, ClientError) as fault:
            if len(groups) == 1:
                raise
            outcome |= dict.fromkeys(members, fault)
            continue
        for result in response.responses:
            resource = Resource(ResourceType(result.resource_type), result.resource_name)
            about = f"{resource.type.name.lower()} {resource.name!r}"
            refusal = refused(result.error_code, about, result.error_message) if result.error_code else None
            outcome[resource] = refusal
    return outcome


def _keeper(resource: Resource) -> int | None:
    """The broker that must be asked itself; None where any will do."""
    own = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name.isdigit()
    return int(resource.name) if own else None


async def _ask_keeper(plan: ClusterPlan, keeper: int | None, message: Any, response: type[Any], least: int) -> Any:
    if keeper is None:
        return await plan.ask_any(type(message), response, lambda _: message, min_version=least)
    broker = await plan.broker(keeper)
    return await Ask(broker.destination(), type(message), response, lambda _: message, min_version=least)


async def api_versions(
    plan: ClusterPlan, brokers: Collection[Broker]
) -> dict[int, dict[int, tuple[int, int]] | ClientError]:
    """The API versions that each broker announces."""
    found: dict[int, dict[int, tuple[int, int]] | ClientError] = {}
    for broker in brokers:
        try:
            found[broker.id] = await VersionsOf(broker.destination())
        except ClientError as fault:
            found[broker.id] = fault
    return found


def _fixed(request: Any) -> Any:
    return lambda _version: request
