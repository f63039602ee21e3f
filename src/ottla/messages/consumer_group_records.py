"""Keys and values of the records in `__consumer_offsets` that groups of the consumer protocol write (KIP-848).

A key is an int16 that names its type, then the key class at version 0; a value is an int16 that names its version, then
the value class at that version; a null value is a tombstone.
"""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bytes, Int8, Int32, Int64, String, Uuid

METADATA_TYPE = 3
PARTITION_METADATA_TYPE = 4
"""Written up to Kafka 4.0; the hash in the group's metadata stands in its place since."""
MEMBER_METADATA_TYPE = 5
TARGET_ASSIGNMENT_METADATA_TYPE = 6
TARGET_ASSIGNMENT_MEMBER_TYPE = 7
CURRENT_MEMBER_ASSIGNMENT_TYPE = 8
REGULAR_EXPRESSION_TYPE = 16


@message(versions=(0, 0), flexible_since=None)
class ConsumerGroupMetadataKey:
    group_id: str = field(String)


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupMetadataValue:
    epoch: int = field(Int32)
    metadata_hash: int = field(Int64, tag=0, default=0)


@message(versions=(0, 0), flexible_since=None)
class ConsumerGroupPartitionMetadataKey:
    group_id: str = field(String)


@struct()
class PartitionMetadata:
    partition: int = field(Int32)
    racks: list[str] = field(Array(String))


@struct()
class TopicMetadata:
    topic_id: bytes = field(Uuid)
    topic_name: str = field(String)
    num_partitions: int = field(Int32)
    partition_metadata: list[PartitionMetadata] = field(Array(PartitionMetadata))


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = field(Array(TopicMetadata))


@message(versions=(0, 0), flexible_since=None)
class ConsumerGroupMemberMetadataKey:
    group_id: str = field(String)
    member_id: str = field(String)


@struct()
class ClassicProtocol:
    name: str = field(String)
    metadata: bytes = field(Bytes)


@struct()
class ClassicMemberMetadata:
    session_timeout_ms: int = field(Int32)
    supported_protocols: list[ClassicProtocol] = field(Array(ClassicProtocol))


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = field(String, nullable_since=0)
    rack_id: str | None = field(String, nullable_since=0)
    client_id: str = field(String)
    client_host: str = field(String)
    subscribed_topic_names: list[str] = field(Array(String))
    subscribed_topic_regex: str | None = field(String, nullable_since=0)
    rebalance_timeout_ms: int = field(Int32, default=-1)
    server_assignor: str | None = field(String, nullable_since=0)
    classic_member_metadata: ClassicMemberMetadata | None = field(ClassicMemberMetadata, tag=0, nullable_since=0)


@message(versions=(0, 0), flexible_since=None)
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = field(String)


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = field(Int32)
    assignment_timestamp: int = field(Int64, tag=0, default=0)


@message(versions=(0, 0), flexible_since=None)
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = field(String)
    member_id: str = field(String)


@struct(name="TopicPartition")
class TargetTopicPartitions:
    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TargetTopicPartitions] = field(Array(TargetTopicPartitions))


@message(versions=(0, 0), flexible_since=None)
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = field(String)
    member_id: str = field(String)


@struct()
class TopicPartitions:
    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))
    assignment_epochs: list[int] | None = field(Array(Int32), tag=0, nullable_since=0)


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = field(Int32)
    previous_member_epoch: int = field(Int32)
    state: int = field(Int8)
    assigned_partitions: list[TopicPartitions] = field(Array(TopicPartitions))
    partitions_pending_revocation: list[TopicPartitions] = field(Array(TopicPartitions))


@message(versions=(0, 0), flexible_since=None)
class ConsumerGroupRegularExpressionKey:
    group_id: str = field(String)
    regular_expression: str = field(String)


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = field(Array(String))
    version: int = field(Int64)
    timestamp: int = field(Int64)
