"""OffsetCommit, key 8: store the offsets up to which a group has consumed."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, Int64, String, Uuid


@struct()
class OffsetCommitRequestPartition:
    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, since=6, default=-1)
    committed_metadata: str | None = field(String, nullable_since=0)


@struct()
class OffsetCommitRequestTopic:
    name: str = field(String, until=9)
    topic_id: bytes = field(Uuid, since=10)
    partitions: list[OffsetCommitRequestPartition] = field(Array(OffsetCommitRequestPartition))


@message(versions=(2, 10), flexible_since=8)
class OffsetCommitRequest:
    group_id: str = field(String)
    generation_id_or_member_epoch: int = field(Int32, default=-1)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, since=7, nullable_since=0, default=None)
    retention_time_ms: int = field(Int64, until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = field(Array(OffsetCommitRequestTopic))


@struct()
class OffsetCommitResponsePartition:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct()
class OffsetCommitResponseTopic:
    name: str = field(String, until=9)
    topic_id: bytes = field(Uuid, since=10)
    partitions: list[OffsetCommitResponsePartition] = field(Array(OffsetCommitResponsePartition))


@message(versions=(2, 10), flexible_since=8)
class OffsetCommitResponse:
    throttle_time_ms: int = field(Int32, since=3)
    topics: list[OffsetCommitResponseTopic] = field(Array(OffsetCommitResponseTopic))


def refusal(request: OffsetCommitRequest, error: int, version: int) -> OffsetCommitResponse | None:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics) if any(topic.partitions for topic in topics) else None
