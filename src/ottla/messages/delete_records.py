"""DeleteRecords, key 21: raise the log start offset of partitions."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, Int64, String


@struct()
class DeleteRecordsPartition:
    partition_index: int = field(Int32)
    offset: int = field(Int64)


@struct()
class DeleteRecordsTopic:
    name: str = field(String)
    partitions: list[DeleteRecordsPartition] = field(Array(DeleteRecordsPartition))


@message(versions=(0, 2), flexible_since=2)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field(Array(DeleteRecordsTopic))
    timeout_ms: int = field(Int32)


@struct()
class DeleteRecordsPartitionResult:
    partition_index: int = field(Int32)
    low_watermark: int = field(Int64)
    error_code: int = field(Int16)


@struct()
class DeleteRecordsTopicResult:
    name: str = field(String)
    partitions: list[DeleteRecordsPartitionResult] = field(Array(DeleteRecordsPartitionResult))


@message(versions=(0, 2), flexible_since=2)
class DeleteRecordsResponse:
    throttle_time_ms: int = field(Int32)
    topics: list[DeleteRecordsTopicResult] = field(Array(DeleteRecordsTopicResult))


def refusal(request: DeleteRecordsRequest, error: int, version: int) -> DeleteRecordsResponse | None:
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsPartitionResult(partition_index=each.partition_index, error_code=error)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DeleteRecordsResponse(topics=topics) if any(topic.partitions for topic in topics) else None
