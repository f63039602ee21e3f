"""OffsetForLeaderEpoch, key 23: where a leader epoch ended in the log of a partition."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, Int64, String


@struct()
class OffsetForLeaderPartition:
    partition: int = field(Int32)
    current_leader_epoch: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32)


@struct()
class OffsetForLeaderTopic:
    topic: str = field(String)
    partitions: list[OffsetForLeaderPartition] = field(Array(OffsetForLeaderPartition))


@message(versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochRequest:
    replica_id: int = field(Int32, since=3, default=-2)
    topics: list[OffsetForLeaderTopic] = field(Array(OffsetForLeaderTopic))


@struct()
class EpochEndOffset:
    error_code: int = field(Int16)
    partition: int = field(Int32)
    leader_epoch: int = field(Int32, default=-1)
    end_offset: int = field(Int64, default=-1)


@struct()
class OffsetForLeaderTopicResult:
    topic: str = field(String)
    partitions: list[EpochEndOffset] = field(Array(EpochEndOffset))


@message(versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = field(Int32)
    topics: list[OffsetForLeaderTopicResult] = field(Array(OffsetForLeaderTopicResult))


def refusal(request: OffsetForLeaderEpochRequest, error: int, version: int) -> OffsetForLeaderEpochResponse | None:
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[EpochEndOffset(partition=each.partition, error_code=error) for each in topic.partitions],
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics) if any(topic.partitions for topic in topics) else None
