"""Metadata, key 3: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int16, Int32, String, Uuid


@struct()
class MetadataRequestTopic:
    topic_id: bytes = field(Uuid, since=10)
    name: str | None = field(String, nullable_since=10)


@message(versions=(0, 13), flexible_since=9)
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = field(Array(MetadataRequestTopic), nullable_since=1)
    allow_auto_topic_creation: bool = field(Bool, since=4, default=True)
    include_cluster_authorized_operations: bool = field(Bool, since=8, until=10)
    include_topic_authorized_operations: bool = field(Bool, since=8)


@struct()
class MetadataResponseBroker:
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, since=1, nullable_since=0, default=None)


@struct()
class MetadataResponsePartition:
    error_code: int = field(Int16)
    partition_index: int = field(Int32)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32, since=7, default=-1)
    replica_nodes: list[int] = field(Array(Int32))
    isr_nodes: list[int] = field(Array(Int32))
    offline_replicas: list[int] = field(Array(Int32), since=5)


@struct()
class MetadataResponseTopic:
    error_code: int = field(Int16)
    name: str | None = field(String, nullable_since=12)
    topic_id: bytes = field(Uuid, since=10)
    is_internal: bool = field(Bool, since=1)
    partitions: list[MetadataResponsePartition] = field(Array(MetadataResponsePartition))
    topic_authorized_operations: int = field(Int32, since=8, default=-0x80000000)


@message(versions=(0, 13), flexible_since=9)
class MetadataResponse:
    throttle_time_ms: int = field(Int32, since=3)
    brokers: list[MetadataResponseBroker] = field(Array(MetadataResponseBroker))
    cluster_id: str | None = field(String, since=2, nullable_since=0, default=None)
    controller_id: int = field(Int32, since=1, default=-1)
    topics: list[MetadataResponseTopic] = field(Array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(Int32, since=8, until=10, default=-0x80000000)
    error_code: int = field(Int16, since=13)


def refusal(request: MetadataRequest, error: int, version: int) -> MetadataResponse | None:
    """Before version 13 there is no place for an error but in a topic that was asked for."""
    topics = [
        MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=error) if topics or version >= 13 else None
