"""TxnOffsetCommit, key 28: store the offsets of a group within a transaction."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, Int64, String


@struct()
class TxnOffsetCommitRequestPartition:
    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, since=2, default=-1)
    committed_metadata: str | None = field(String, nullable_since=0)


@struct()
class TxnOffsetCommitRequestTopic:
    name: str = field(String)
    partitions: list[TxnOffsetCommitRequestPartition] = field(Array(TxnOffsetCommitRequestPartition))


@message(versions=(0, 5), flexible_since=3)
class TxnOffsetCommitRequest:
    transactional_id: str = field(String)
    group_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    generation_id: int = field(Int32, since=3, default=-1)
    member_id: str = field(String, since=3)
    group_instance_id: str | None = field(String, since=3, nullable_since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(Array(TxnOffsetCommitRequestTopic))


@struct()
class TxnOffsetCommitResponsePartition:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct()
class TxnOffsetCommitResponseTopic:
    name: str = field(String)
    partitions: list[TxnOffsetCommitResponsePartition] = field(Array(TxnOffsetCommitResponsePartition))


@message(versions=(0, 5), flexible_since=3)
class TxnOffsetCommitResponse:
    throttle_time_ms: int = field(Int32)
    topics: list[TxnOffsetCommitResponseTopic] = field(Array(TxnOffsetCommitResponseTopic))


def refusal(request: TxnOffsetCommitRequest, error: int, version: int) -> TxnOffsetCommitResponse | None:
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=topics) if any(topic.partitions for topic in topics) else None
