"""The messages that members of a classic consumer group leave for one another in JoinGroup and SyncGroup.

Kafka calls them the embedded consumer protocol. Before each of them stands its version, an int16.
"""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bytes, Int32, String


@struct(name="TopicPartition")
class OwnedTopicPartitions:
    topic: str = field(String, since=1)
    partitions: list[int] = field(Array(Int32), since=1)


@message(versions=(0, 3), flexible_since=None)
class ConsumerProtocolSubscription:
    topics: list[str] = field(Array(String))
    user_data: bytes | None = field(Bytes, nullable_since=0, default=None)
    owned_partitions: list[OwnedTopicPartitions] = field(Array(OwnedTopicPartitions), since=1)
    generation_id: int = field(Int32, since=2, default=-1)
    rack_id: str | None = field(String, since=3, nullable_since=3, default=None)


@struct(name="TopicPartition")
class AssignedTopicPartitions:
    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@message(versions=(0, 3), flexible_since=None)
class ConsumerProtocolAssignment:
    assigned_partitions: list[AssignedTopicPartitions] = field(Array(AssignedTopicPartitions))
    user_data: bytes | None = field(Bytes, nullable_since=0, default=None)
