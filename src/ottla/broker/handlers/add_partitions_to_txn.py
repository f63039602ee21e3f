"""AddPartitionsToTxn (key 24, versions 0 to 5): clients add partitions (0 to 3), brokers add for them or verify (4, 5).

KIP-98; brokers ask since KIP-890. Clients may use the brokers' versions too, as on an Apache Kafka without an
authorizer: `@platformatic/kafka` takes the highest announced version. These versions allow a client nothing more than
the older ones, except to verify.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.transaction_coordinator import add_partitions, fenced_as
from ottla.broker.coordinators.verification import Question, refuse_missing
from ottla.broker.waiting import A_TURN, next_turn
from ottla.cluster.protection import INTERNAL_TOPICS
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.story import run_story
from ottla.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from ottla.transactions.values import Verified

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_BROKERS_SINCE = 4
_KNOWS_FENCED_SINCE = 2


async def handle(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    if call.api_version >= _BROKERS_SINCE:
        return await _of_several(call, request)
    partitions = _partitions(request.v3_and_below_topics)
    outcome = _without_rights(call, partitions) or refuse_missing(call.node.metadata, partitions)
    if outcome is None and not request.v3_and_below_transactional_id:
        outcome = dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    if outcome is None:
        error = await add_partitions(
            call.node.transactions,
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            partitions,
            bumps=False,
            patience_ms=call.node.config.add_partitions_to_txn_retry_backoff_ms,
        )
        outcome = dict.fromkeys(partitions, fenced_as(error, known=call.api_version >= _KNOWS_FENCED_SINCE))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(outcome))


def _without_rights(call: Call, partitions: frozenset[TopicPartition]) -> Verified | None:
    """The refusal of all, if the caller may not write to one of the topics; nobody may to internal ones."""
    if call.node.rights is None or call.peer is not None:
        return None
    denied = {
        name
        for name in sorted({each.topic for each in partitions})
        if name in INTERNAL_TOPICS or not call.may(Operation.WRITE, ResourceKind.TOPIC, name)
    }
    if not denied:
        return None
    no, not_tried = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED
    return {each: no if each.topic in denied else not_tried for each in partitions}


async def _of_several(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Submit all transactions before waiting for the first answer: their entries share a commit."""
    asked = []
    for number, each in enumerate(request.transactions, 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        question = Question(
            each.transactional_id,
            each.producer_id,
            each.producer_epoch,
            _partitions(each.topics),
            adds=not each.verify_only,
        )
        asked.append(run_story(call.node.verification.ask_here(question)))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=_by_topic(await slot))
            for each, slot in zip(request.transactions, asked, strict=True)
        ]
    )


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _by_topic(outcome: Verified) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, index), error in sorted(outcome.items()):
        topics.setdefault(topic, AddPartitionsToTxnTopicResult(name=topic)).results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        )
    return list(topics.values())
