"""TxnOffsetCommit (key 28, versions 0 to 5): offsets of a group that count once their transaction is committed.

KIP-98; from version 3 on the member is compared (KIP-447), from version 5 on it adds its partition itself (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC
from ottla.broker.coordinators.verification import NOT_THE_OWNER, Question
from ottla.broker.requests.topic_answers import answered, merged
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.shards import TransactionalWriter, coordinator_error
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_KNOWS_LOADING_SINCE = 2
_KNOWS_ABORTABLE_SINCE = 4
_ADDS_SINCE = 5


async def handle(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Missing topics are refused one by one, as by OffsetCommit. Without a topic nothing joins the transaction."""
    if not request.group_id:
        return _refused(request.topics, ErrorCode.INVALID_GROUP_ID)
    refused: list[TxnOffsetCommitResponseTopic] = []
    topic_ids: dict[str, bytes] = {}
    asked, request.topics = request.topics, []
    for topic in asked:
        known = call.node.metadata.topic(topic.name)
        count = 0 if known is None else len(known.partitions)
        missing = [each for each in topic.partitions if not 0 <= each.partition_index < count]
        topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
        if missing:
            gone = TxnOffsetCommitRequestTopic(name=topic.name, partitions=missing)
            refused += _refused([gone], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION).topics
        if known is not None and topic.partitions:
            topic_ids[topic.name] = known.topic_id
            request.topics.append(topic)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=merged(refused))
    answer = await _commit(call, request, topic_ids)
    if isinstance(answer, ErrorCode):
        answer = _refused(request.topics, _told(answer, call.api_version))
    return TxnOffsetCommitResponse(topics=answered(refused, answer.topics))


async def _commit(
    call: Call, request: TxnOffsetCommitRequest, topic_ids: dict[str, bytes]
) -> TxnOffsetCommitResponse | ErrorCode:
    """Append with a guard, which is checked again: leadership, or the transaction, may have ended meanwhile."""
    node = call.node
    index, runner = node.groups.partition_for(request.group_id), node.groups.runner_of(request.group_id)
    if index is None or runner is None:
        return ErrorCode.NOT_COORDINATOR
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    adds = call.api_version >= _ADDS_SINCE
    guard = runner.guard(request.producer_id, request.producer_epoch, bumps=adds)
    if isinstance(guard, ErrorCode):
        return guard
    if guard is not None and (adds or node.config.transaction_partition_verification_enable):
        place = TopicPartition(OFFSETS_TOPIC, index)
        question = Question(
            request.transactional_id, request.producer_id, request.producer_epoch, frozenset({place}), adds
        )
        verified = await node.verification.ask(question, patient=False)
        if verified[place]:
            if verified[place] in NOT_THE_OWNER:
                runner.forget_guard(request.producer_id, guard)
            return verified[place]
    if request.producer_id < 0:  # no coordinator was asked: with -1 the offsets would count as plain ones
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch < 0:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    writer = TransactionalWriter(request.producer_id, request.producer_epoch, guard)
    answer: TxnOffsetCommitResponse | ErrorCode = await node.groups.ask(
        request.group_id,
        lambda shard, ticket, now: shard.commit_in_transaction(request, topic_ids, writer, ticket, now),
    )
    return answer


def _told(error: ErrorCode, version: int) -> ErrorCode:
    """The error of a refusal as a code that this version's clients know."""
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    error = coordinator_error(error)  # also where the transaction's coordinator does not know yet of the offsets topic
    if error == ErrorCode.NETWORK_EXCEPTION:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _KNOWS_LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


def _refused(topics: list[TxnOffsetCommitRequestTopic], error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ]
    )
