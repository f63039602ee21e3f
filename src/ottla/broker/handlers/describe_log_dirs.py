"""DescribeLogDirs (key 35, versions 1 to 5): each log directory, its room, and how much each partition takes (KIP-113).

An offline directory is answered with KAFKA_STORAGE_ERROR, and without its content. A replica that cannot be opened is
left out of its directory, as in Apache Kafka; DescribeConfigs tells the reason (troubles.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.replicas.moves import ReplicaMove
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.requests.call import Call

_ERROR_SINCE = 3


async def handle(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    if not call.may(Operation.DESCRIBE, ResourceKind.CLUSTER, CLUSTER_NAME):  # before version 3 nothing says so
        known = call.api_version >= _ERROR_SINCE
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if known else ErrorCode.NONE
        return DescribeLogDirsResponse(error_code=error)
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    directories = call.node.replicas.directories
    found: dict[str, dict[str, DescribeLogDirsTopic]] = {path: {} for path in directories.paths}
    for partition in call.node.replicas.all():
        if wanted is None or (partition.topic, partition.index) in wanted:
            path = directories.of(partition.log).path
            _of(found[path], partition.topic).partitions.append(_described(partition))
    for move in call.node.replicas.moves:
        partition = move.partition
        if wanted is None or (partition.topic, partition.index) in wanted:
            topics = found[move.target.path]
            _of(topics, partition.topic).partitions.append(_future(move))
    results = []
    for path, topics in found.items():
        if path in directories.failed:
            results.append(DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=[]))
            continue
        total, usable = directories.room(path)
        results.append(
            DescribeLogDirsResult(
                log_dir=path, topics=list(topics.values()), total_bytes=total, usable_bytes=usable
            )
        )  # fmt: skip
    return DescribeLogDirsResponse(results=results)


def _of(topics: dict[str, DescribeLogDirsTopic], name: str) -> DescribeLogDirsTopic:
    return topics.setdefault(name, DescribeLogDirsTopic(name=name))


def _described(partition: Partition) -> DescribeLogDirsPartition:
    """A served replica; its `offset_lag` counts from the high watermark, as in Apache Kafka."""
    held = partition.log
    return DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=held.size_bytes,
        offset_lag=max(0, held.high_watermark - held.end_offset),
    )


def _future(move: ReplicaMove) -> DescribeLogDirsPartition:
    """A replica that is moving to a directory; its lag is the part that is not copied yet."""
    return DescribeLogDirsPartition(
        partition_index=move.partition.index,
        partition_size=move.future.size_bytes,
        offset_lag=move.lag,
        is_future_key=True,
    )
