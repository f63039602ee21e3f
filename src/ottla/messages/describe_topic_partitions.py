"""DescribeTopicPartitions, key 75: partitions of topics, a page at a time."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int16, Int32, String, Uuid


@struct()
class TopicRequest:
    name: str = field(String)


@struct()
class Cursor:
    topic_name: str = field(String)
    partition_index: int = field(Int32)


@message(versions=(0, 0), flexible_since=0)
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = field(Array(TopicRequest))
    response_partition_limit: int = field(Int32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable_since=0, default=None)


@struct()
class DescribeTopicPartitionsResponsePartition:
    error_code: int = field(Int16)
    partition_index: int = field(Int32)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32, default=-1)
    replica_nodes: list[int] = field(Array(Int32))
    isr_nodes: list[int] = field(Array(Int32))
    eligible_leader_replicas: list[int] | None = field(Array(Int32), nullable_since=0, default=None)
    last_known_elr: list[int] | None = field(Array(Int32), nullable_since=0, default=None)
    offline_replicas: list[int] = field(Array(Int32))


@struct()
class DescribeTopicPartitionsResponseTopic:
    error_code: int = field(Int16)
    name: str | None = field(String, nullable_since=0)
    topic_id: bytes = field(Uuid)
    is_internal: bool = field(Bool)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(Array(DescribeTopicPartitionsResponsePartition))
    topic_authorized_operations: int = field(Int32, default=-0x80000000)


@message(versions=(0, 0), flexible_since=0)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = field(Int32)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(Array(DescribeTopicPartitionsResponseTopic))
    next_cursor: Cursor | None = field(Cursor, nullable_since=0, default=None)


def refusal(
    request: DescribeTopicPartitionsRequest, error: int, version: int
) -> DescribeTopicPartitionsResponse | None:
    topics = [DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=error) for topic in request.topics]
    return DescribeTopicPartitionsResponse(topics=topics) if topics else None
