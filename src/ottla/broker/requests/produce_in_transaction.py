"""The first batches of transactions in Produce: asks the coordinator, and passes its errors on (KIP-890).

Called by handlers/produce.py before it appends. Until the coordinator answers, no later request of the connection
begins (rule D4), so that a producer's batches stay in their order. The commit of the batches holds no request up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.coordinators.verification import NOT_THE_OWNER, Question
from ottla.broker.replicas.admission import RefusedBatch
from ottla.broker.replicas.partition import Partition
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.story import run_story
from ottla.records.batch import Batch
from ottla.records.header import HEADER_SIZE
from ottla.storage.producers.producers import Guard
from ottla.storage.values import Appended

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call
    from ottla.wire.hot import Produce

Place = tuple[int, int]
"""A batch in a request: the position of its topic in the list, and its own position in the topic's list."""
_KNOWS_ABORTABLE_SINCE = 11
_ADDS_SINCE = 12
_NOT_NOW = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
"""Errors after which clients retry. The last two: the coordinator does not know yet of a partition led here."""


class ClearedProduce(NamedTuple):
    """The request as it may be appended, with a guard or a refusal for each batch that needs one."""

    request: Produce
    guards: dict[Place, Guard | ErrorCode | RefusedBatch]

    def append(
        self, partition: Partition, place: Place, records: memoryview | None, acks: int, wall_ms: int
    ) -> Appended | ErrorCode | RefusedBatch:
        """Append a batch, unless its coordinator has refused it."""
        guard = self.guards.get(place)
        if isinstance(guard, ErrorCode | RefusedBatch):
            return guard
        return partition.produce_in_transaction(records, guard, acks=acks, wall_ms=wall_ms)


class _First(NamedTuple):
    """A batch that is the first of its transaction in a partition."""

    place: Place
    partition: TopicPartition
    replica: Partition
    producer: tuple[int, int]
    guard: Guard


async def clear(call: Call, request: Produce) -> ClearedProduce:
    """Ask the coordinator about the partitions in which the transaction is not open yet."""
    if not call.node.has_transactions:
        return _all_refused(
            request, RefusedBatch(ErrorCode.INVALID_TXN_STATE, "Not every broker has transactions yet.")
        )
    found = _look(call, request)
    producers = {each.producer for each in found.firsts}
    if len(found.producers) > 1:
        return _all_refused(request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    guards: dict[Place, Guard | ErrorCode | RefusedBatch] = dict(found.refused)
    adds = call.api_version >= _ADDS_SINCE
    asks = adds or call.node.config.transaction_partition_verification_enable
    guards |= {each.place: each.guard for each in found.firsts}
    if not producers or not asks:
        return ClearedProduce(request, guards)
    assert request.transactional_id is not None
    (producer,) = producers
    partitions = frozenset(each.partition for each in found.firsts)
    question = Question(request.transactional_id, *producer, partitions, adds)
    if call.node.verification.confirmed(question):
        return ClearedProduce(request, guards)
    asked = run_story(call.node.verification.ask(question))
    if not asked.full:
        call.blocks = True
        request = _owned(request)
    codes = await asked
    call.blocks = False  # the batches are appended next, before this waits again
    for each in found.firsts:
        error = codes[each.partition]
        if error in NOT_THE_OWNER:
            each.replica.log.producers.forget_guard(each.producer[0], each.guard)
        if error:
            guards[each.place] = _told(error, call.api_version)
    return ClearedProduce(request, guards)


class _Found(NamedTuple):
    producers: set[tuple[int, int]]
    firsts: list[_First]
    refused: dict[Place, ErrorCode]


def _look(call: Call, request: Produce) -> _Found:
    """The batches that need their coordinator's confirmation. Faults of other batches are found at their append."""
    found = _Found(set(), [], {})
    for topic_place, (name, topic_id, records_of) in enumerate(request.topics):
        for place, (index, records) in enumerate(records_of):
            if records is None or len(records) < HEADER_SIZE:
                continue
            batch = Batch(records)
            if not batch.is_transactional or batch.producer_id < 0:
                continue
            producer = (batch.producer_id, batch.producer_epoch)
            found.producers.add(producer)
            partition = call.node.partition(name, topic_id, index)
            if not isinstance(partition, Partition):
                continue
            guard = partition.guard(*producer, batch.base_sequence, bumps=call.api_version >= _ADDS_SINCE)
            if isinstance(guard, ErrorCode):
                found.refused[topic_place, place] = guard
            elif guard is not None and not partition.has(batch):
                named = TopicPartition(partition.topic, partition.index)
                found.firsts.append(_First((topic_place, place), named, partition, producer, guard))
    return found


def _told(error: ErrorCode, version: int) -> ErrorCode | RefusedBatch:
    """The coordinator's error as a code that this version's clients know."""
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error in _NOT_NOW or (error == ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS_SINCE):
        why = f"Unable to verify the partition has been added to the transaction: {error.message}"
        return RefusedBatch(ErrorCode.NOT_ENOUGH_REPLICAS, why)
    return error


def _all_refused(request: Produce, why: ErrorCode | RefusedBatch) -> ClearedProduce:
    return ClearedProduce(
        request,
        {
            (topic_place, place): why
            for topic_place, (_, _, records_of) in enumerate(request.topics)
            for place in range(len(records_of))
        },
    )


def _owned(request: Produce) -> Produce:
    """Copy the request's batches: the frame's buffer is reused once the story waits (rule E4)."""
    topics = [
        (name, topic_id, [(index, None if records is None else memoryview(bytes(records))) for index, records in some])
        for name, topic_id, some in request.topics
    ]
    return request._replace(topics=topics)
