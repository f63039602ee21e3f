"""CreatePartitions, key 37: add partitions to topics."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int16, Int32, String


@struct()
class CreatePartitionsAssignment:
    broker_ids: list[int] = field(Array(Int32))


@struct()
class CreatePartitionsTopic:
    name: str = field(String)
    count: int = field(Int32)
    assignments: list[CreatePartitionsAssignment] | None = field(Array(CreatePartitionsAssignment), nullable_since=0)


@message(versions=(0, 3), flexible_since=2)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field(Array(CreatePartitionsTopic))
    timeout_ms: int = field(Int32)
    validate_only: bool = field(Bool)


@struct()
class CreatePartitionsTopicResult:
    name: str = field(String)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0, default=None)


@message(versions=(0, 3), flexible_since=2)
class CreatePartitionsResponse:
    throttle_time_ms: int = field(Int32)
    results: list[CreatePartitionsTopicResult] = field(Array(CreatePartitionsTopicResult))


def refusal(request: CreatePartitionsRequest, error: int, version: int) -> CreatePartitionsResponse | None:
    results = [CreatePartitionsTopicResult(name=topic.name, error_code=error) for topic in request.topics]
    return CreatePartitionsResponse(results=results) if results else None
