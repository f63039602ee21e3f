"""ListPartitionReassignments, key 46: partitions whose replicas are becoming others."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, String


@struct()
class ListPartitionReassignmentsTopics:
    name: str = field(String)
    partition_indexes: list[int] = field(Array(Int32))


@message(versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: int = field(Int32, default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        Array(ListPartitionReassignmentsTopics), nullable_since=0, default=None
    )


@struct()
class OngoingPartitionReassignment:
    partition_index: int = field(Int32)
    replicas: list[int] = field(Array(Int32))
    adding_replicas: list[int] = field(Array(Int32))
    removing_replicas: list[int] = field(Array(Int32))


@struct()
class OngoingTopicReassignment:
    name: str = field(String)
    partitions: list[OngoingPartitionReassignment] = field(Array(OngoingPartitionReassignment))


@message(versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    topics: list[OngoingTopicReassignment] = field(Array(OngoingTopicReassignment))


def refusal(request: ListPartitionReassignmentsRequest, error: int, version: int) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error)
