"""Produce, key 0: append record batches to partitions."""

from __future__ import annotations

from ottla.kernel.seams import Buffer
from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, Int64, Records, String, Uuid


@struct()
class PartitionProduceData:
    index: int = field(Int32)
    records: Buffer | None = field(Records, nullable_since=0)


@struct()
class TopicProduceData:
    name: str = field(String, until=12)
    topic_id: bytes = field(Uuid, since=13)
    partition_data: list[PartitionProduceData] = field(Array(PartitionProduceData))


@message(versions=(3, 13), flexible_since=9)
class ProduceRequest:
    transactional_id: str | None = field(String, nullable_since=0, default=None)
    acks: int = field(Int16)
    timeout_ms: int = field(Int32)
    topic_data: list[TopicProduceData] = field(Array(TopicProduceData))


@struct()
class BatchIndexAndErrorMessage:
    batch_index: int = field(Int32, since=8)
    batch_index_error_message: str | None = field(String, since=8, nullable_since=0, default=None)


@struct()
class LeaderIdAndEpoch:
    leader_id: int = field(Int32, since=10, default=-1)
    leader_epoch: int = field(Int32, since=10, default=-1)


@struct()
class PartitionProduceResponse:
    index: int = field(Int32)
    error_code: int = field(Int16)
    base_offset: int = field(Int64)
    log_append_time_ms: int = field(Int64, default=-1)
    log_start_offset: int = field(Int64, since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(Array(BatchIndexAndErrorMessage), since=8)
    error_message: str | None = field(String, since=8, nullable_since=0, default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=10, tag=0)


@struct()
class TopicProduceResponse:
    name: str = field(String, until=12)
    topic_id: bytes = field(Uuid, since=13)
    partition_responses: list[PartitionProduceResponse] = field(Array(PartitionProduceResponse))


@struct()
class NodeEndpoint:
    node_id: int = field(Int32, since=10)
    host: str = field(String, since=10)
    port: int = field(Int32, since=10)
    rack: str | None = field(String, since=10, nullable_since=0, default=None)


@message(versions=(3, 13), flexible_since=9)
class ProduceResponse:
    responses: list[TopicProduceResponse] = field(Array(TopicProduceResponse))
    throttle_time_ms: int = field(Int32)
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), since=10, tag=0)
