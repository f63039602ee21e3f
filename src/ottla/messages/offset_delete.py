"""OffsetDelete, key 47: delete the stored offsets of a group."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, String


@struct()
class OffsetDeleteRequestPartition:
    partition_index: int = field(Int32)


@struct()
class OffsetDeleteRequestTopic:
    name: str = field(String)
    partitions: list[OffsetDeleteRequestPartition] = field(Array(OffsetDeleteRequestPartition))


@message(versions=(0, 0), flexible_since=None)
class OffsetDeleteRequest:
    group_id: str = field(String)
    topics: list[OffsetDeleteRequestTopic] = field(Array(OffsetDeleteRequestTopic))


@struct()
class OffsetDeleteResponsePartition:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct()
class OffsetDeleteResponseTopic:
    name: str = field(String)
    partitions: list[OffsetDeleteResponsePartition] = field(Array(OffsetDeleteResponsePartition))


@message(versions=(0, 0), flexible_since=None)
class OffsetDeleteResponse:
    error_code: int = field(Int16)
    throttle_time_ms: int = field(Int32)
    topics: list[OffsetDeleteResponseTopic] = field(Array(OffsetDeleteResponseTopic))


def refusal(request: OffsetDeleteRequest, error: int, version: int) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error)
