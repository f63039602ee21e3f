"""DescribeLogDirs (key 35): the log directory, its room, and how much each partition takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.dispatch import Call


async def handle(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in call.node.replicas.all():
        if wanted is not None and (partition.topic, partition.index) not in wanted:
            continue
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=partition.index, partition_size=partition.log.size_bytes)
        )
    total, usable = call.node.replicas.room()
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=call.node.replicas.path, topics=list(topics.values()), total_bytes=total, usable_bytes=usable
            )
        ]
    )
