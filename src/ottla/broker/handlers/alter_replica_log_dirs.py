"""AlterReplicaLogDirs (key 34, versions 1 and 2): move replicas to other log directories of this broker (KIP-113).

They are served meanwhile. A replica that is not here yet is REPLICA_NOT_AVAILABLE, and will be made in the named
directory: `kafka-reassign-partitions` repeats the request until the replica is there. While a log directory is offline
no move begins.
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
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    asked = [
        (directory.path, topic.name, index)
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    ]
    try:
        with call.node.replicas.together(len(asked)):
            for path, name, index in asked:
                result = results.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
                code = int(_outcome(call, path, name, index))
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    except OSError as error:  # moves to a directory that has failed end with it
        call.node.disk_failed(error)
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _outcome(call: Call, path: str, name: str, index: int) -> ErrorCode:
    replicas = call.node.replicas
    directories = replicas.directories
    if name_error(name) is not None or not replicas.moves.name_fits(name, index):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path not in directories.paths:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if path in directories.failed:
        return ErrorCode.KAFKA_STORAGE_ERROR
    partition = replicas.by_name.get((name, index))
    if partition is not None:
        return replicas.moves.alter(path, partition)
    topic = call.node.metadata.topic(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if replicas.offline.holds(topic.topic_id, index):
        return ErrorCode.KAFKA_STORAGE_ERROR
    directories.wanted[(name, index)] = path
    return ErrorCode.REPLICA_NOT_AVAILABLE
