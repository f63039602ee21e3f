"""Fetch, key 1: read record batches from partitions, with or without a fetch session."""

from __future__ import annotations

from ottla.kernel.seams import Buffer
from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int8, Int16, Int32, Int64, Records, String, Uuid


@struct()
class ReplicaState:
    replica_id: int = field(Int32, since=15, default=-1)
    replica_epoch: int = field(Int64, since=15, default=-1)


@struct()
class FetchPartition:
    partition: int = field(Int32)
    current_leader_epoch: int = field(Int32, since=9, default=-1)
    fetch_offset: int = field(Int64)
    last_fetched_epoch: int = field(Int32, since=12, default=-1)
    log_start_offset: int = field(Int64, since=5, default=-1)
    partition_max_bytes: int = field(Int32)
    replica_directory_id: bytes = field(Uuid, since=17, tag=0)
    high_watermark: int = field(Int64, since=18, tag=1, default=0x7FFFFFFFFFFFFFFF)


@struct()
class FetchTopic:
    topic: str = field(String, until=12)
    topic_id: bytes = field(Uuid, since=13)
    partitions: list[FetchPartition] = field(Array(FetchPartition))


@struct()
class ForgottenTopic:
    topic: str = field(String, since=7, until=12)
    topic_id: bytes = field(Uuid, since=13)
    partitions: list[int] = field(Array(Int32), since=7)


@message(versions=(4, 18), flexible_since=12)
class FetchRequest:
    cluster_id: str | None = field(String, since=12, nullable_since=0, tag=0, default=None)
    replica_id: int = field(Int32, until=14, default=-1)
    replica_state: ReplicaState = field(ReplicaState, since=15, tag=1)
    max_wait_ms: int = field(Int32)
    min_bytes: int = field(Int32)
    max_bytes: int = field(Int32, default=0x7FFFFFFF)
    isolation_level: int = field(Int8)
    session_id: int = field(Int32, since=7)
    session_epoch: int = field(Int32, since=7, default=-1)
    topics: list[FetchTopic] = field(Array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(Array(ForgottenTopic), since=7)
    rack_id: str = field(String, since=11)


@struct()
class EpochEndOffset:
    epoch: int = field(Int32, since=12, default=-1)
    end_offset: int = field(Int64, since=12, default=-1)


@struct()
class LeaderIdAndEpoch:
    leader_id: int = field(Int32, since=12, default=-1)
    leader_epoch: int = field(Int32, since=12, default=-1)


@struct()
class SnapshotId:
    end_offset: int = field(Int64, default=-1)
    epoch: int = field(Int32, default=-1)


@struct()
class AbortedTransaction:
    producer_id: int = field(Int64)
    first_offset: int = field(Int64)


@struct()
class PartitionData:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    high_watermark: int = field(Int64)
    last_stable_offset: int = field(Int64, default=-1)
    log_start_offset: int = field(Int64, since=5, default=-1)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(Array(AbortedTransaction), nullable_since=0)
    preferred_read_replica: int = field(Int32, since=11, default=-1)
    records: Buffer | None = field(Records, nullable_since=0)


@struct()
class FetchableTopicResponse:
    topic: str = field(String, until=12)
    topic_id: bytes = field(Uuid, since=13)
    partitions: list[PartitionData] = field(Array(PartitionData))


@struct()
class NodeEndpoint:
    node_id: int = field(Int32, since=16)
    host: str = field(String, since=16)
    port: int = field(Int32, since=16)
    rack: str | None = field(String, since=16, nullable_since=0, default=None)


@message(versions=(4, 18), flexible_since=12)
class FetchResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, since=7)
    session_id: int = field(Int32, since=7)
    responses: list[FetchableTopicResponse] = field(Array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), since=16, tag=0)
