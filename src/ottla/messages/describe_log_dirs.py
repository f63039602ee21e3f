"""DescribeLogDirs, key 35: what each log directory holds, and how much room it has."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int16, Int32, Int64, String


@struct()
class DescribableLogDirTopic:
    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@message(versions=(1, 5), flexible_since=2)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(Array(DescribableLogDirTopic), nullable_since=0)


@struct()
class DescribeLogDirsPartition:
    partition_index: int = field(Int32)
    partition_size: int = field(Int64)
    offset_lag: int = field(Int64)
    is_future_key: bool = field(Bool)


@struct()
class DescribeLogDirsTopic:
    name: str = field(String)
    partitions: list[DescribeLogDirsPartition] = field(Array(DescribeLogDirsPartition))


@struct()
class DescribeLogDirsResult:
    error_code: int = field(Int16)
    log_dir: str = field(String)
    topics: list[DescribeLogDirsTopic] = field(Array(DescribeLogDirsTopic))
    total_bytes: int = field(Int64, since=4, default=-1)
    usable_bytes: int = field(Int64, since=4, default=-1)
    is_cordoned: bool = field(Bool, since=5)


@message(versions=(1, 5), flexible_since=2)
class DescribeLogDirsResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, since=3)
    results: list[DescribeLogDirsResult] = field(Array(DescribeLogDirsResult))


def refusal(request: DescribeLogDirsRequest, error: int, version: int) -> DescribeLogDirsResponse:
    """Before version 3 there is no place for an error but in a directory."""
    return DescribeLogDirsResponse(error_code=error, results=[DescribeLogDirsResult(error_code=error)])
