"""The answer that refuses a whole request: one error code in every place where its response has one.

dispatch.py comes here for a handler's own bug and for injected faults; access control will.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.kernel.errors import ErrorCode
from ottla.wire.apis import APIS
from ottla.wire.hot import Fetch, FetchedPartition, Part, Produce
from ottla.wire.hot_answers import FetchAnswer, encode_produced

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_LISTS = (
    ("topics", "topics"),
    ("topics", "responses"),
    ("topics", "results"),
    ("topic_names", "responses"),
    ("topic_partitions", "replica_election_results"),
    ("resources", "results"),
    ("resources", "responses"),
    ("groups", "groups"),
    ("group_ids", "groups"),
    ("groups_names", "results"),
    ("coordinator_keys", "coordinators"),
    ("partitions", "partitions"),
    ("partition_indexes", "partitions"),
    ("partitions", "partition_result"),
    ("partitions", "results_by_partition"),
    ("v3_and_below_topics", "results_by_topic_v3_and_below"),
    ("markers", "markers"),
    ("transactional_ids", "transaction_states"),
)
"""Pairs of lists: what was asked for, and where the answer says how each went."""

_NAMES = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "resource_type",
    "resource_name",
    "partition_index",
    "partition",
    "producer_id",
)
"""Fields by which asked and answered things are known alike."""

_ERRORS = ("error_code", "partition_error_code")
_TEXT_NAMES = ("name", "group_id", "topic", "key", "transactional_id")
_NUMBER_NAMES = ("partition_index", "partition_id")
_NOTHING = {"node_id": -1, "port": -1, "committed_offset": -1}
"""What Kafka gives where there is nothing to give, and the field's own default is another."""

_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


def refusal(call: Call, request: Any, error: ErrorCode) -> Any:
    """A message (or ready parts) that says `error`; None where only closing the connection can say it."""
    if isinstance(request, Produce):
        return _refuse_produce(call, request, error)
    if isinstance(request, Fetch):
        return _refuse_fetch(call, request, error)
    if APIS[call.api_key].name == "DescribeLogDirs":
        return _refuse_directories(error)
    if APIS[call.api_key].name == "AlterReplicaLogDirs":
        return _refuse_moves(request, error)
    response = APIS[call.api_key].response()
    return response if _mirror(request, response, call.api_version, error) else None


def _refuse_produce(call: Call, request: Produce, error: ErrorCode) -> list[Part]:
    topics = [
        (name, topic_id, [(index, int(error), -1, -1, -1) for index, _ in partitions])
        for name, topic_id, partitions in request.topics
    ]
    return [] if request.acks == 0 else [encode_produced(call.correlation_id, call.api_version, topics, 0)]


def _refuse_fetch(call: Call, request: Fetch, error: ErrorCode) -> list[Part]:
    """In the partitions that the request names; on the whole where it names none, or where its session is at fault."""
    topics = [] if error in _SESSION_ERRORS else request.topics
    answer = FetchAnswer(
        call.correlation_id,
        call.api_version,
        throttle_ms=0,
        error=0 if topics else int(error),
        session_id=0,
        topics=len(topics),
    )
    for name, topic_id, partitions in topics:
        answer.topic(name, topic_id, [_refused_partition(asked[0], error) for asked in partitions])
    return answer.finish([])


def _refused_partition(index: int, error: ErrorCode) -> FetchedPartition:
    return FetchedPartition(
        partition=index,
        error=int(error),
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted=None,
        preferred_read_replica=-1,
        slices=[],
        records_size=0,
        diverging=None,
        leader=None,
    )


def _mirror(asked: Any, answer: Any, version: int, error: ErrorCode) -> bool:
    """Say the error in an answer, and in the answer to each thing inside; False where this version has no place."""
    said = False
    for field in _fields(answer):
        if field.name in _ERRORS and field.is_in(version):
            setattr(answer, field.name, int(error))
            said = True
        elif field.name in _NOTHING:
            setattr(answer, field.name, _NOTHING[field.name])
    for asked_name, answered_name in _LISTS:
        things = getattr(asked, asked_name, None)
        if things and hasattr(answer, answered_name):
            element = next(field for field in _fields(answer) if field.name == answered_name)
            if element.struct is not None and element.is_in(version):
                said |= _mirror_each(things, getattr(answer, answered_name), element.struct, version, error)
    return said


def _mirror_each(things: list[Any], answers: list[Any], struct: type, version: int, error: ErrorCode) -> bool:
    said = False
    for thing in things:
        answer = struct()
        if isinstance(thing, str | int):
            _copy_first(answer, _TEXT_NAMES if isinstance(thing, str) else _NUMBER_NAMES, thing)
        for name in _NAMES:
            value = getattr(thing, name, None)
            if value is not None and hasattr(answer, name):
                setattr(answer, name, value)
        said |= _mirror(thing, answer, version, error)
        answers.append(answer)
    return said


def _copy_first(answer: Any, names: tuple[str, ...], value: str | int) -> None:
    for name in names:
        if hasattr(answer, name):
            setattr(answer, name, value)
            return


def _refuse_directories(error: ErrorCode) -> Any:
    """Before version 3 there is no place for an error but in a directory."""
    from ottla.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult

    return DescribeLogDirsResponse(error_code=int(error), results=[DescribeLogDirsResult(error_code=int(error))])


def _refuse_moves(request: Any, error: ErrorCode) -> Any:
    """Asked for by directory, answered by topic."""
    from ottla.messages import alter_replica_log_dirs as messages

    results: dict[str, messages.AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, messages.AlterReplicaLogDirTopicResult(topic_name=topic.name))
            result.partitions += [
                messages.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=int(error))
                for index in topic.partitions
            ]
    return messages.AlterReplicaLogDirsResponse(results=list(results.values()))


def _fields(message: Any) -> tuple[Any, ...]:
    from ottla.schema.message import schema_of

    return schema_of(type(message)).fields
