"""DescribeCluster, key 60: the brokers of the cluster."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int8, Int16, Int32, String


@message(versions=(0, 2), flexible_since=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = field(Bool)
    endpoint_type: int = field(Int8, since=1, default=1)
    include_fenced_brokers: bool = field(Bool, since=2)


@struct()
class DescribeClusterBroker:
    broker_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, nullable_since=0, default=None)
    is_fenced: bool = field(Bool, since=2)


@message(versions=(0, 2), flexible_since=0)
class DescribeClusterResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0, default=None)
    endpoint_type: int = field(Int8, since=1, default=1)
    cluster_id: str = field(String)
    controller_id: int = field(Int32, default=-1)
    brokers: list[DescribeClusterBroker] = field(Array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(Int32, default=-0x80000000)


def refusal(request: DescribeClusterRequest, error: int, version: int) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error)
