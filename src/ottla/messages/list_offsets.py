"""ListOffsets, key 2: find offsets by timestamp, or the earliest and the latest ones."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int8, Int16, Int32, Int64, String


@struct()
class ListOffsetsPartition:
    partition_index: int = field(Int32)
    current_leader_epoch: int = field(Int32, since=4, default=-1)
    timestamp: int = field(Int64)


@struct()
class ListOffsetsTopic:
    name: str = field(String)
    partitions: list[ListOffsetsPartition] = field(Array(ListOffsetsPartition))


@message(versions=(1, 11), flexible_since=6)
class ListOffsetsRequest:
    replica_id: int = field(Int32)
    isolation_level: int = field(Int8, since=2)
    topics: list[ListOffsetsTopic] = field(Array(ListOffsetsTopic))
    timeout_ms: int = field(Int32, since=10)


@struct()
class ListOffsetsPartitionResponse:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    timestamp: int = field(Int64, default=-1)
    offset: int = field(Int64, default=-1)
    leader_epoch: int = field(Int32, since=4, default=-1)


@struct()
class ListOffsetsTopicResponse:
    name: str = field(String)
    partitions: list[ListOffsetsPartitionResponse] = field(Array(ListOffsetsPartitionResponse))


@message(versions=(1, 11), flexible_since=6)
class ListOffsetsResponse:
    throttle_time_ms: int = field(Int32, since=2)
    topics: list[ListOffsetsTopicResponse] = field(Array(ListOffsetsTopicResponse))


def refusal(request: ListOffsetsRequest, error: int, version: int) -> ListOffsetsResponse | None:
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=error)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics) if any(topic.partitions for topic in topics) else None
