"""AlterPartitionReassignments, key 45: other replicas for partitions."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int16, Int32, String


@struct()
class ReassignablePartition:
    partition_index: int = field(Int32)
    replicas: list[int] | None = field(Array(Int32), nullable_since=0, default=None)


@struct()
class ReassignableTopic:
    name: str = field(String)
    partitions: list[ReassignablePartition] = field(Array(ReassignablePartition))


@message(versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = field(Int32, default=60_000)
    allow_replication_factor_change: bool = field(Bool, since=1, default=True)
    topics: list[ReassignableTopic] = field(Array(ReassignableTopic))


@struct()
class ReassignablePartitionResponse:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)


@struct()
class ReassignableTopicResponse:
    name: str = field(String)
    partitions: list[ReassignablePartitionResponse] = field(Array(ReassignablePartitionResponse))


@message(versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = field(Int32)
    allow_replication_factor_change: bool = field(Bool, since=1, default=True)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    responses: list[ReassignableTopicResponse] = field(Array(ReassignableTopicResponse))


def refusal(
    request: AlterPartitionReassignmentsRequest, error: int, version: int
) -> AlterPartitionReassignmentsResponse:
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(partition_index=each.partition_index, error_code=error)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=error, responses=responses)
