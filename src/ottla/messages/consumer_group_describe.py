"""ConsumerGroupDescribe, key 69: the members, epochs and assignments of groups of the consumer protocol."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int8, Int16, Int32, String, Uuid


@message(versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = field(Array(String))
    include_authorized_operations: bool = field(Bool)


@struct()
class TopicPartitions:
    topic_id: bytes = field(Uuid)
    topic_name: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct()
class Assignment:
    topic_partitions: list[TopicPartitions] = field(Array(TopicPartitions))


@struct()
class Member:
    member_id: str = field(String)
    instance_id: str | None = field(String, nullable_since=0, default=None)
    rack_id: str | None = field(String, nullable_since=0, default=None)
    member_epoch: int = field(Int32)
    client_id: str = field(String)
    client_host: str = field(String)
    subscribed_topic_names: list[str] = field(Array(String))
    subscribed_topic_regex: str | None = field(String, nullable_since=0, default=None)
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    member_type: int = field(Int8, since=1, default=-1)


@struct()
class DescribedGroup:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0, default=None)
    group_id: str = field(String)
    group_state: str = field(String)
    group_epoch: int = field(Int32)
    assignment_epoch: int = field(Int32)
    assignor_name: str = field(String)
    members: list[Member] = field(Array(Member))
    authorized_operations: int = field(Int32, default=-0x80000000)


@message(versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = field(Int32)
    groups: list[DescribedGroup] = field(Array(DescribedGroup))


def refusal(request: ConsumerGroupDescribeRequest, error: int, version: int) -> ConsumerGroupDescribeResponse | None:
    groups = [DescribedGroup(group_id=group_id, error_code=error) for group_id in request.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups) if groups else None
