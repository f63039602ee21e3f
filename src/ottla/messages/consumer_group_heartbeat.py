"""ConsumerGroupHeartbeat, key 68: join a group of the consumer protocol, stay in it, leave it (KIP-848)."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, String, Uuid


@struct(name="TopicPartitions")
class OwnedTopicPartitions:
    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))


@message(versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatRequest:
    group_id: str = field(String)
    member_id: str = field(String)
    member_epoch: int = field(Int32)
    instance_id: str | None = field(String, nullable_since=0, default=None)
    rack_id: str | None = field(String, nullable_since=0, default=None)
    rebalance_timeout_ms: int = field(Int32, default=-1)
    subscribed_topic_names: list[str] | None = field(Array(String), nullable_since=0, default=None)
    subscribed_topic_regex: str | None = field(String, since=1, nullable_since=1, default=None)
    server_assignor: str | None = field(String, nullable_since=0, default=None)
    topic_partitions: list[OwnedTopicPartitions] | None = field(
        Array(OwnedTopicPartitions), nullable_since=0, default=None
    )


@struct()
class TopicPartitions:
    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))


@struct()
class Assignment:
    topic_partitions: list[TopicPartitions] = field(Array(TopicPartitions))


@message(versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0, default=None)
    member_id: str | None = field(String, nullable_since=0, default=None)
    member_epoch: int = field(Int32)
    heartbeat_interval_ms: int = field(Int32)
    assignment: Assignment | None = field(Assignment, nullable_since=0, default=None)


def refusal(request: ConsumerGroupHeartbeatRequest, error: int, version: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)
