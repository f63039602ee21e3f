"""DescribeQuorum, key 55: the state of the metadata quorum."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, Int64, String, Uint16, Uuid


@struct(name="PartitionData")
class RequestPartitionData:
    partition_index: int = field(Int32)


@struct(name="TopicData")
class RequestTopicData:
    topic_name: str = field(String)
    partitions: list[RequestPartitionData] = field(Array(RequestPartitionData))


@message(versions=(0, 2), flexible_since=0)
class DescribeQuorumRequest:
    topics: list[RequestTopicData] = field(Array(RequestTopicData))


@struct()
class ReplicaState:
    replica_id: int = field(Int32)
    replica_directory_id: bytes = field(Uuid, since=2)
    log_end_offset: int = field(Int64)
    last_fetch_timestamp: int = field(Int64, since=1, default=-1)
    last_caught_up_timestamp: int = field(Int64, since=1, default=-1)


@struct()
class PartitionData:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, since=2, nullable_since=0)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32)
    high_watermark: int = field(Int64)
    current_voters: list[ReplicaState] = field(Array(ReplicaState))
    observers: list[ReplicaState] = field(Array(ReplicaState))


@struct()
class TopicData:
    topic_name: str = field(String)
    partitions: list[PartitionData] = field(Array(PartitionData))


@struct()
class Listener:
    name: str = field(String, since=2)
    host: str = field(String, since=2)
    port: int = field(Uint16, since=2)


@struct()
class Node:
    node_id: int = field(Int32, since=2)
    listeners: list[Listener] = field(Array(Listener), since=2)


@message(versions=(0, 2), flexible_since=0)
class DescribeQuorumResponse:
    error_code: int = field(Int16)
    error_message: str | None = field(String, since=2, nullable_since=0)
    topics: list[TopicData] = field(Array(TopicData))
    nodes: list[Node] = field(Array(Node), since=2)


def refusal(request: DescribeQuorumRequest, error: int, version: int) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error)
