"""Administration of replicas and leaders as stories: reassignments, log directories, elections, brokers gone for good.

Beside `admin.py`; results of single partitions that failed are an `ApiError` in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.client.consume.offsets import by_topic
from ottla.client.core.effects import Ask, AskAll
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ClientError, refused
from ottla.client.model import Broker
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ottla.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from ottla.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

_OPERATION_MS = 60_000


class Election(IntEnum):
    """The wanted leader: the first replica, or any live one, even if it lacks records."""

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A partition on its way to other brokers; `replicas` are those it has now, with those that are added."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def alter_reassignments(
    plan: ClusterPlan,
    wanted: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
    timeout_ms: int = _OPERATION_MS,
) -> dict[TopicPartition, ApiError | None]:
    """Move partitions to these brokers, the preferred leader first; None cancels a move that is on its way.

    In the result None says that the move has begun; `list_reassignments` shows it until it is done. Errors are
    UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT and, for a cancellation, NO_REASSIGNMENT_IN_PROGRESS.
    """
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        allow_replication_factor_change=allow_replication_factor_change,
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=_listed(wanted[TopicPartition(topic, index)]))
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(list(wanted)).items()
        ],
    )
    response = await plan.ask_controller(
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        lambda _: request,
        lambda answer: answer.error_code,
        min_version=0 if allow_replication_factor_change else 1,
        timeout_ms=timeout_ms + plan.settings.request_timeout_ms,
    )
    if response.error_code:
        raise refused(response.error_code, "altering reassignments", response.error_message)
    for topic in by_topic(list(wanted)):
        plan.metadata.doubt(topic)
    return {
        place: _outcome(place, part.error_code, part.error_message)
        for topic in response.responses
        for part in topic.partitions
        for place in (TopicPartition(topic.name, part.partition_index),)
    }


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


async def list_reassignments(
    plan: ClusterPlan, partitions: Collection[TopicPartition] | None = None, *, timeout_ms: int = _OPERATION_MS
) -> dict[TopicPartition, Reassignment]:
    """The moves on their way, of these partitions or all."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    request = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)
    response = await plan.ask_controller(
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
        lambda _: request,
        lambda answer: answer.error_code,
        timeout_ms=timeout_ms + plan.settings.request_timeout_ms,
    )
    if response.error_code:
        raise refused(response.error_code, "listing reassignments", response.error_message)
    return {
        TopicPartition(topic.name, part.partition_index): Reassignment(
            tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
        )
        for topic in response.topics
        for part in topic.partitions
    }


async def elect_leaders(
    plan: ClusterPlan,
    election: Election,
    partitions: Collection[TopicPartition] | None = None,
    *,
    timeout_ms: int = _OPERATION_MS,
) -> dict[TopicPartition, ApiError | None]:
    """Have leaders elected, for these partitions or all that can have another; None: elected.

    Errors are ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE and ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    topics = None
    if partitions is not None:
        topics = [TopicPartitions(topic=topic, partitions=found) for topic, found in by_topic(partitions).items()]
    request = ElectLeadersRequest(election_type=int(election), topic_partitions=topics, timeout_ms=timeout_ms)
    response = await plan.ask_controller(
        ElectLeadersRequest,
        ElectLeadersResponse,
        lambda _: request,
        lambda answer: answer.error_code,
        min_version=0 if election is Election.PREFERRED else 1,
        timeout_ms=timeout_ms + plan.settings.request_timeout_ms,
    )
    if response.error_code:
        raise refused(response.error_code, "electing leaders")
    for result in response.replica_election_results:
        plan.metadata.doubt(result.topic)
    return {
        place: _outcome(place, part.error_code, part.error_message)
        for result in response.replica_election_results
        for part in result.partition_result
        for place in (TopicPartition(result.topic, part.partition_id),)
    }


def _outcome(place: TopicPartition, error_code: int, message: str | None) -> ApiError | None:
    """The error of one partition; None if the election was done."""
    return refused(error_code, str(place), message) if error_code else None


async def alter_replica_log_dirs(
    plan: ClusterPlan, wanted: Mapping[tuple[int, TopicPartition], str]
) -> dict[tuple[int, TopicPartition], Exception | None]:
    """Move replicas, each by its broker's id and partition, into these directories of their brokers.

    None: the move has begun. Errors are LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR for a directory that has failed, and
    REPLICA_NOT_AVAILABLE where there is no replica yet: one that is made later is made there.
    """
    outcome: dict[tuple[int, TopicPartition], Exception | None] = {}
    for broker_id in sorted({broker_id for broker_id, _ in wanted}):
        mine = {partition: path for (owner, partition), path in wanted.items() if owner == broker_id}
        request = AlterReplicaLogDirsRequest(dirs=[_directory(path, mine) for path in sorted(set(mine.values()))])
        try:
            broker = await plan.broker(broker_id)
            response = await Ask(
                broker.destination(), AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, _fixed(request)
            )
        except ClientError as fault:
            outcome |= {(broker_id, partition): fault for partition in mine}
            continue
        for topic in response.results:
            for part in topic.partitions:
                about = f"{topic.topic_name}-{part.partition_index} on broker {broker_id}"
                outcome[broker_id, TopicPartition(topic.topic_name, part.partition_index)] = (
                    refused(part.error_code, about) if part.error_code else None
                )
    return outcome


async def describe_log_dirs(
    plan: ClusterPlan, brokers: Collection[Broker], topics: Collection[TopicPartition] | None = None
) -> dict[int, list[DescribeLogDirsResult] | Exception]:
    """The log directories of each broker, with these partitions or all."""
    wanted = None
    if topics is not None:
        wanted = [DescribableLogDirTopic(topic=topic, partitions=parts) for topic, parts in by_topic(topics).items()]
    request = DescribeLogDirsRequest(topics=wanted)
    asks = [
        Ask(broker.destination(), DescribeLogDirsRequest, DescribeLogDirsResponse, lambda _: request)
        for broker in brokers
    ]
    answers = await AskAll(asks)
    found: dict[int, list[DescribeLogDirsResult] | Exception] = {}
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, Exception):
            found[broker.id] = answer
        elif answer.error_code:
            found[broker.id] = refused(answer.error_code, f"log directories of broker {broker.id}")
        else:
            found[broker.id] = answer.results
    return found


def _directory(path: str, wanted: Mapping[TopicPartition, str]) -> AlterReplicaLogDir:
    inside = by_topic([partition for partition, target in wanted.items() if target == path])
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=indexes) for topic, indexes in inside.items()]
    return AlterReplicaLogDir(path=path, topics=topics)


def _fixed(request: AlterReplicaLogDirsRequest) -> Callable[[int], object]:
    return lambda _version: request


async def unregister_broker(plan: ClusterPlan, broker: int) -> None:
    """Forget a broker that does not come back, by its id. Its replicas stay assigned until they are moved.

    A broker of ottla that still runs stops, and registers again when it is started.
    Raises `ApiError` BROKER_ID_NOT_REGISTERED where there is none.
    """
    response = await plan.ask_controller(
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
        lambda _: UnregisterBrokerRequest(broker_id=broker),
        lambda answer: answer.error_code,
    )
    if response.error_code:
        raise refused(response.error_code, f"broker {broker}", response.error_message)


async def describe_brokers(plan: ClusterPlan, *, fenced: bool = False) -> DescribeClusterResponse:
    """Like `describe_cluster`; with `fenced` fenced brokers too, UnsupportedVersion on brokers before Kafka 4.0."""
    request = DescribeClusterRequest(include_fenced_brokers=fenced)
    least = 2 if fenced else 0
    response = await plan.ask_any(DescribeClusterRequest, DescribeClusterResponse, lambda _: request, min_version=least)
    if response.error_code:
        raise refused(response.error_code, "describing the cluster", response.error_message)
    return response
