"""ElectLeaders, key 43: elect leaders for partitions."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int8, Int16, Int32, String


@struct()
class TopicPartitions:
    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@message(versions=(0, 2), flexible_since=2)
class ElectLeadersRequest:
    election_type: int = field(Int8, since=1)
    topic_partitions: list[TopicPartitions] | None = field(Array(TopicPartitions), nullable_since=0)
    timeout_ms: int = field(Int32, default=60_000)


@struct()
class PartitionResult:
    partition_id: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)


@struct()
class ReplicaElectionResult:
    topic: str = field(String)
    partition_result: list[PartitionResult] = field(Array(PartitionResult))


@message(versions=(0, 2), flexible_since=2)
class ElectLeadersResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, since=1)
    replica_election_results: list[ReplicaElectionResult] = field(Array(ReplicaElectionResult))


def refusal(request: ElectLeadersRequest, error: int, version: int) -> ElectLeadersResponse | None:
    """In version 0 there is no place for an error but in a partition that was asked for."""
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[PartitionResult(partition_id=index, error_code=error) for index in topic.partitions],
        )
        for topic in request.topic_partitions or ()
    ]
    if version < 1 and not any(result.partition_result for result in results):
        return None
    return ElectLeadersResponse(error_code=error, replica_election_results=results)
