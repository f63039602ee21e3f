"""OffsetFetch, key 9: read the offsets that groups have stored."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int16, Int32, Int64, String, Uuid


@struct()
class OffsetFetchRequestTopic:
    name: str = field(String, until=7)
    partition_indexes: list[int] = field(Array(Int32), until=7)


@struct()
class OffsetFetchRequestTopics:
    name: str = field(String, since=8, until=9)
    topic_id: bytes = field(Uuid, since=10)
    partition_indexes: list[int] = field(Array(Int32), since=8)


@struct()
class OffsetFetchRequestGroup:
    group_id: str = field(String, since=8)
    member_id: str | None = field(String, since=9, nullable_since=0, default=None)
    member_epoch: int = field(Int32, since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(Array(OffsetFetchRequestTopics), since=8, nullable_since=0)


@message(versions=(1, 10), flexible_since=6)
class OffsetFetchRequest:
    group_id: str = field(String, until=7)
    topics: list[OffsetFetchRequestTopic] | None = field(Array(OffsetFetchRequestTopic), until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = field(Array(OffsetFetchRequestGroup), since=8)
    require_stable: bool = field(Bool, since=7)


@struct()
class OffsetFetchResponsePartition:
    partition_index: int = field(Int32, until=7)
    committed_offset: int = field(Int64, until=7)
    committed_leader_epoch: int = field(Int32, since=5, until=7, default=-1)
    metadata: str | None = field(String, until=7, nullable_since=0)
    error_code: int = field(Int16, until=7)


@struct()
class OffsetFetchResponseTopic:
    name: str = field(String, until=7)
    partitions: list[OffsetFetchResponsePartition] = field(Array(OffsetFetchResponsePartition), until=7)


@struct()
class OffsetFetchResponsePartitions:
    partition_index: int = field(Int32, since=8)
    committed_offset: int = field(Int64, since=8)
    committed_leader_epoch: int = field(Int32, since=8, default=-1)
    metadata: str | None = field(String, since=8, nullable_since=0)
    error_code: int = field(Int16, since=8)


@struct()
class OffsetFetchResponseTopics:
    name: str = field(String, since=8, until=9)
    topic_id: bytes = field(Uuid, since=10)
    partitions: list[OffsetFetchResponsePartitions] = field(Array(OffsetFetchResponsePartitions), since=8)


@struct()
class OffsetFetchResponseGroup:
    group_id: str = field(String, since=8)
    topics: list[OffsetFetchResponseTopics] = field(Array(OffsetFetchResponseTopics), since=8)
    error_code: int = field(Int16, since=8)


@message(versions=(1, 10), flexible_since=6)
class OffsetFetchResponse:
    throttle_time_ms: int = field(Int32, since=3)
    topics: list[OffsetFetchResponseTopic] = field(Array(OffsetFetchResponseTopic), until=7)
    error_code: int = field(Int16, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = field(Array(OffsetFetchResponseGroup), since=8)


def refusal(request: OffsetFetchRequest, error: int, version: int) -> OffsetFetchResponse | None:
    """For each group from version 8 on; before, for the one group that was asked for."""
    if version >= 8:
        groups = [_refused_group(group, error) for group in request.groups]
        return OffsetFetchResponse(groups=groups) if groups else None
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=error)
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    is_said = version >= 2 or any(topic.partitions for topic in topics)
    return OffsetFetchResponse(topics=topics, error_code=error) if is_said else None


def _refused_group(group: OffsetFetchRequestGroup, error: int) -> OffsetFetchResponseGroup:
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=error)
                for index in topic.partition_indexes
            ],
        )
        for topic in group.topics or ()
    ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=error)
