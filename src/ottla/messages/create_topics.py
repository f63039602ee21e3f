"""CreateTopics, key 19: create topics."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int8, Int16, Int32, String, Uuid


@struct()
class CreatableReplicaAssignment:
    partition_index: int = field(Int32)
    broker_ids: list[int] = field(Array(Int32))


@struct()
class CreatableTopicConfig:
    name: str = field(String)
    value: str | None = field(String, nullable_since=0)


@struct()
class CreatableTopic:
    name: str = field(String)
    num_partitions: int = field(Int32)
    replication_factor: int = field(Int16)
    assignments: list[CreatableReplicaAssignment] = field(Array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(Array(CreatableTopicConfig))


@message(versions=(2, 7), flexible_since=5)
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field(Array(CreatableTopic))
    timeout_ms: int = field(Int32, default=60_000)
    validate_only: bool = field(Bool)


@struct()
class CreatableTopicConfigs:
    name: str = field(String, since=5)
    value: str | None = field(String, since=5, nullable_since=0)
    read_only: bool = field(Bool, since=5)
    config_source: int = field(Int8, since=5, default=-1)
    is_sensitive: bool = field(Bool, since=5)


@struct()
class CreatableTopicResult:
    name: str = field(String)
    topic_id: bytes = field(Uuid, since=7)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    topic_config_error_code: int = field(Int16, since=5, tag=0)
    num_partitions: int = field(Int32, since=5, default=-1)
    replication_factor: int = field(Int16, since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(Array(CreatableTopicConfigs), since=5, nullable_since=0)


@message(versions=(2, 7), flexible_since=5)
class CreateTopicsResponse:
    throttle_time_ms: int = field(Int32)
    topics: list[CreatableTopicResult] = field(Array(CreatableTopicResult))


def refusal(request: CreateTopicsRequest, error: int, version: int) -> CreateTopicsResponse | None:
    topics = [CreatableTopicResult(name=topic.name, error_code=error) for topic in request.topics]
    return CreateTopicsResponse(topics=topics) if topics else None
