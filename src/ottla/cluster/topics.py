"""Topics: names, creation, deletion, more partitions. The sentences are those of Apache Kafka, as tools show them.

Called by `decide.py`; `placement.py` chooses brokers if the client does not.
"""

from __future__ import annotations

import re

from ottla.cluster.commands import Assignment, CreatePartitions, CreateTopic, DeleteTopic
from ottla.cluster.placement import place
from ottla.cluster.protection import deletion_refused, policy_refused
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from ottla.metadata import entries as log
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.snapshot import split_partitions
from ottla.metadata.state import Metadata

MAX_NAME_LENGTH = 249
MAX_NEW_PARTITIONS = 10_000
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def create(command: CreateTopic, state: Metadata) -> list[log.Body] | ApiError:
    """The entries of a new topic; it becomes visible with the last of them (rule C4)."""
    wrong = name_error(command.name)
    if wrong is not None:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {wrong}")
    if (taken := state.name_taken(command.name)) is not None:
        if taken.topic_id == command.topic_id:
            return []  # our own topic, requested again because an answer was lost
        return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{command.name}' already exists.")
    if (other := _colliding(command.name, state)) is not None:
        return ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{command.name}' collides with existing topic: {other}",
        )
    if (refused := policy_refused(command.name, None, dict(command.configs))) is not None:
        return refused
    assignment = _new_assignment(command, state)
    if isinstance(assignment, ApiError):
        return assignment
    if sum(len(name) + len(value.encode()) for name, value in command.configs) > log.ENTRY_LIMIT // 2:
        return ApiError(ErrorCode.INVALID_CONFIG, "The configuration of this topic is too large.")
    configs = [log.ConfigChange(name=name, value=value) for name, value in sorted(command.configs)]
    partitions = _new_partitions(state, command.topic_id, assignment, first=0)
    return [
        log.TopicCreated(topic_id=command.topic_id, name=command.name, configs=configs),
        *(log.PartitionsCreated(partitions=run) for run in split_partitions(partitions)),
        log.TopicReady(topic_id=command.topic_id),
    ]


def delete(command: DeleteTopic, state: Metadata) -> list[log.Body] | ApiError:
    topic = state.topics.get(command.topic_id)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if (refused := deletion_refused(topic.name, topic.configs)) is not None:
        return refused
    return [log.TopicDeleted(topic_id=command.topic_id)]


def create_partitions(command: CreatePartitions, state: Metadata) -> list[log.Body] | ApiError:
    topic = state.topic(command.name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    present = len(topic.partitions)
    added = command.total - present
    if added == 0:
        return ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if added < 0:
        return ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {command.name} currently has {present} partition(s); {command.total} would not be an increase.",
        )
    if added > MAX_NEW_PARTITIONS:
        return ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    first = topic.partitions[0]
    replicas = len(first.replicas) - len(first.removing)  # during a move there are more
    if command.assignment is not None:
        if len(command.assignment) != added:
            return ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(command.assignment)} assignment(s) "
                "were specified.",
            )
        refused = _assignment_problem(command.assignment, state, replicas)
        if refused is not None:
            return refused
        assignment = command.assignment
    elif (short := _too_few_brokers(state, replicas)) is not None:
        return short
    else:
        placed = place(state, topic.topic_id, partitions=added, replicas=replicas, first_partition=present)
        assignment = tuple(placed)
    partitions = _new_partitions(state, topic.topic_id, assignment, first=present)
    return [log.PartitionsCreated(partitions=run) for run in split_partitions(partitions)]


def name_error(name: str) -> str | None:
    """The fault of a topic's name; None for a good one."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def _colliding(name: str, state: Metadata) -> str | None:
    """A topic whose name is the same once dots are underscores, as in the names of metrics."""
    if "." not in name and "_" not in name:
        return None
    flat = name.replace(".", "_")
    return next((other for other in state.topic_names() if other.replace(".", "_") == flat), None)


def _new_assignment(command: CreateTopic, state: Metadata) -> Assignment | ApiError:
    if command.assignment is not None:
        if command.replication_factor != -1:
            return ApiError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if command.partitions != -1:
            return ApiError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        return _assignment_problem(command.assignment, state, None) or command.assignment
    replicas = command.replication_factor
    if replicas < 1:
        return ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if command.partitions < 1:
        return ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if command.partitions > MAX_NEW_PARTITIONS:
        return ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if command.as_far_as_possible:
        replicas = max(1, min(replicas, len(state.active_brokers())))
    if (short := _too_few_brokers(state, replicas)) is not None:
        return short
    return tuple(place(state, command.topic_id, partitions=command.partitions, replicas=replicas))


def _too_few_brokers(state: Metadata, replicas: int) -> ApiError | None:
    """The error if there are too few brokers; absent ones count, as long as one is alive to lead."""
    registered = len(state.brokers)
    if not state.active_brokers():
        why = "All brokers are currently fenced."
    elif registered < replicas:
        why = f"The target replication factor of {replicas} cannot be reached because "
        why += f"only {registered} broker(s) are registered."
    else:
        return None
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {replicas} time(s): {why}"
    )


def _assignment_problem(assignment: Assignment, state: Metadata, replicas: int | None) -> ApiError | None:
    """The fault of replicas that the client chose; `replicas` is the number each partition must have."""
    for brokers in assignment:
        if (wrong := replicas_problem(brokers, state)) is not None:
            return wrong
        if replicas is not None and len(brokers) != replicas:
            return _bad_assignment(
                f"The manual partition assignment includes a partition with {len(brokers)} replica(s), but this is "
                f"not consistent with previous partitions, which have {replicas} replica(s)."
            )
        replicas = len(brokers)
        if not any(state.is_active(broker_id) for broker_id in brokers):
            return _bad_assignment("All brokers specified in the manual partition assignment are fenced.")
    return None


def replicas_problem(replicas: tuple[BrokerId, ...], state: Metadata) -> ApiError | None:
    """The fault of the replicas that the client chose for one partition."""
    if not replicas:
        return _bad_assignment("The manual partition assignment includes an empty replica list.")
    for broker_id in replicas:
        if broker_id not in state.brokers:
            return _bad_assignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if replicas.count(broker_id) > 1:
            return _bad_assignment(f"The manual partition assignment includes the broker {broker_id} more than once.")
    return None


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _new_partitions(state: Metadata, topic_id: TopicId, assignment: Assignment, *, first: int) -> list[PartitionState]:
    """The first state of a partition: every active replica is in sync; the first of them leads."""
    partitions = []
    for index, replicas in enumerate(assignment):
        in_sync = tuple(broker_id for broker_id in replicas if state.is_active(broker_id))
        partitions.append(
            PartitionState(
                topic_id,
                first + index,
                in_sync[0] if in_sync else BrokerId(NO_LEADER),
                LeaderEpoch(0),
                PartitionEpoch(0),
                replicas,
                in_sync,
            )
        )
    return partitions
