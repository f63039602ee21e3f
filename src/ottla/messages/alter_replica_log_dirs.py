"""AlterReplicaLogDirs, key 34: in which log directory of a broker replicas shall be."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, String


@struct()
class AlterReplicaLogDirTopic:
    name: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct()
class AlterReplicaLogDir:
    path: str = field(String)
    topics: list[AlterReplicaLogDirTopic] = field(Array(AlterReplicaLogDirTopic))


@message(versions=(1, 2), flexible_since=2)
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = field(Array(AlterReplicaLogDir))


@struct()
class AlterReplicaLogDirPartitionResult:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct()
class AlterReplicaLogDirTopicResult:
    topic_name: str = field(String)
    partitions: list[AlterReplicaLogDirPartitionResult] = field(Array(AlterReplicaLogDirPartitionResult))


@message(versions=(1, 2), flexible_since=2)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int = field(Int32)
    results: list[AlterReplicaLogDirTopicResult] = field(Array(AlterReplicaLogDirTopicResult))


def refusal(request: AlterReplicaLogDirsRequest, error: int, version: int) -> AlterReplicaLogDirsResponse | None:
    """Asked for by directory, answered by topic."""
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            result.partitions += [
                AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error) for index in topic.partitions
            ]
    if not any(result.partitions for result in results.values()):
        return None
    return AlterReplicaLogDirsResponse(results=list(results.values()))
