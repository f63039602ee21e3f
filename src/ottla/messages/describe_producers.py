"""DescribeProducers, key 61: the producers that are active on partitions."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, Int64, String


@struct()
class TopicRequest:
    name: str = field(String)
    partition_indexes: list[int] = field(Array(Int32))


@message(versions=(0, 0), flexible_since=0)
class DescribeProducersRequest:
    topics: list[TopicRequest] = field(Array(TopicRequest))


@struct()
class ProducerState:
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int32)
    last_sequence: int = field(Int32, default=-1)
    last_timestamp: int = field(Int64, default=-1)
    coordinator_epoch: int = field(Int32)
    current_txn_start_offset: int = field(Int64, default=-1)


@struct()
class PartitionResponse:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0, default=None)
    active_producers: list[ProducerState] = field(Array(ProducerState))


@struct()
class TopicResponse:
    name: str = field(String)
    partitions: list[PartitionResponse] = field(Array(PartitionResponse))


@message(versions=(0, 0), flexible_since=0)
class DescribeProducersResponse:
    throttle_time_ms: int = field(Int32)
    topics: list[TopicResponse] = field(Array(TopicResponse))


def refusal(request: DescribeProducersRequest, error: int, version: int) -> DescribeProducersResponse | None:
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[
                PartitionResponse(partition_index=index, error_code=error) for index in topic.partition_indexes
            ],
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(topics=topics) if any(topic.partitions for topic in topics) else None
