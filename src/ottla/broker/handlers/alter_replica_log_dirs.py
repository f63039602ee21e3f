"""AlterReplicaLogDirs (key 34): a broker has one log directory, so a replica is where it shall be, or cannot be.

A replica that is not here yet is REPLICA_NOT_AVAILABLE: `kafka-reassign-partitions` asks again until it has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.topics import name_error
from ottla.kernel.errors import ErrorCode
from ottla.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.dispatch import Call


async def handle(call: Call, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for index in topic.partitions:
                code = int(_outcome(call, directory.path, topic.name, index))
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _outcome(call: Call, path: str, name: str, index: int) -> ErrorCode:
    replicas = call.node.replicas
    if name_error(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    directories = replicas.directories
    if path not in directories.paths:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if path in directories.failed:
        return ErrorCode.KAFKA_STORAGE_ERROR
    partition = replicas.by_name.get((name, index))
    if partition is not None:
        return ErrorCode.NONE if directories.of(partition.log).path == path else ErrorCode.KAFKA_STORAGE_ERROR
    topic = call.node.metadata.topic(name)
    known = topic is not None and 0 <= index < len(topic.partitions)
    return ErrorCode.REPLICA_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
