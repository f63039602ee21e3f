"""Administration of transactions as stories: list them, their producers in a partition, find hanging ones, end them.

A transaction hangs where a partition has it open and its coordinator does not mean to end it there: the marker that
read_committed readers wait for never comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.client.consume.offsets import by_topic, raise_first
from ottla.client.core import transfer
from ottla.client.core.effects import Ask, AskAll
from ottla.client.core.plan import TRANSACTION, ClusterPlan
from ottla.client.errors import refused
from ottla.client.model import Destination, ProducerIdentity
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from ottla.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_DURATION_SINCE = 1
_PATTERN_SINCE = 2
_MOST_AT_ONCE = 500
_FENCING_TIMEOUT_MS = 1_000


class ListedTransaction(NamedTuple):
    """One transactional id and the broker that coordinates it."""

    coordinator: int
    transactional_id: str
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    """A transactional id as its coordinator knows it; `started_ms` is -1 where nothing is open."""

    coordinator: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]
    """The partitions of an open transaction; of one that ends, those that have no marker yet."""


class OpenTransaction(NamedTuple):
    """A transaction that a partition has open."""

    partition: TopicPartition
    producer: ProducerState


async def list_transactions(
    plan: ClusterPlan,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """The transactional ids of the cluster, as far as they pass all filters.

    `states` are Kafka's names, such as Ongoing or CompleteCommit. `longer_than_ms` keeps those whose transaction
    began longer ago, `pattern`, a regular expression in RE2's syntax, those whose whole id it matches. Raises
    UnsupportedVersion where a broker does not know these two.
    """
    request = ListTransactionsRequest(
        state_filters=sorted(states),
        producer_id_filters=sorted(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    least = _PATTERN_SINCE if pattern is not None else _DURATION_SINCE if longer_than_ms >= 0 else 0

    def ask(where: Destination) -> Ask[ListTransactionsResponse]:
        return Ask(where, ListTransactionsRequest, ListTransactionsResponse, lambda _: request, min_version=least)

    attempts = plan.attempts()
    while True:
        await plan.refresh()
        brokers = sorted(plan.metadata.brokers.values())
        answers = await AskAll([ask(broker.destination()) for broker in brokers])
        fault: Exception | None = None
        found: list[ListedTransaction] = []
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, Exception):
                fault = answer
            elif answer.error_code:
                fault = refused(answer.error_code, f"transactions of broker {broker.id}")
            else:
                found += [
                    ListedTransaction(broker.id, each.transactional_id, each.producer_id, each.transaction_state)
                    for each in answer.transaction_states
                ]
        if fault is None:
            return found
        await attempts.after(fault)


async def describe_transactions(
    plan: ClusterPlan, transactional_ids: Collection[str]
) -> dict[str, DescribedTransaction | ApiError]:
    """Each transactional id as its coordinator knows it, or TRANSACTIONAL_ID_NOT_FOUND."""
    return {name: await _describe_transaction(plan, name) for name in transactional_ids}


async def _describe_transaction(plan: ClusterPlan, name: str) -> DescribedTransaction | ApiError:
    request = DescribeTransactionsRequest(transactional_ids=[name])

    def ask(where: Destination) -> Ask[DescribeTransactionsResponse]:
        return Ask(where, DescribeTransactionsRequest, DescribeTransactionsResponse, lambda _: request)

    response = await plan.ask_coordinator(
        name, ask, lambda answer: answer.transaction_states[0].error_code, kind=TRANSACTION
    )
    found = response.transaction_states[0]
    if found.error_code:
        return refused(found.error_code, f"transactional id {name!r}")
    coordinator = await plan.coordinator(name, TRANSACTION)
    return DescribedTransaction(
        coordinator.id,
        name,
        found.producer_id,
        found.producer_epoch,
        found.transaction_state,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms,
        tuple(TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions),
    )


async def describe_producers(
    plan: ClusterPlan, partitions: Collection[TopicPartition], broker: int | None = None
) -> dict[TopicPartition, list[ProducerState] | Exception]:
    """The producers that the leader of each partition knows, or one broker that has a replica."""

    def ask(where: Destination, some: Sequence[TopicPartition]) -> Ask[DescribeProducersResponse]:
        topics = [TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in by_topic(some).items()]
        request = DescribeProducersRequest(topics=topics)
        return Ask(where, DescribeProducersRequest, DescribeProducersResponse, lambda _: request)

    if broker is None:
        return await plan.per_leader(partitions, ask, _read_producers)
    response = await ask((await plan.broker(broker)).destination(), list(partitions))
    return dict(_read_producers(response))


def _read_producers(response: DescribeProducersResponse) -> dict[TopicPartition, list[ProducerState] | ApiError]:
    return {
        TopicPartition(topic.name, part.partition_index): refused(
            part.error_code, f"producers of {topic.name}-{part.partition_index}", part.error_message
        )
        if part.error_code
        else part.active_producers
        for topic in response.topics
        for part in topic.partitions
    }


async def abort_in_partition(
    plan: ClusterPlan, partition: TopicPartition, producer: ProducerIdentity, coordinator_epoch: int = 0
) -> None:
    """Write an abort marker for a transaction that hangs in this partition (`hanging_transactions` finds them)."""
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
                coordinator_epoch=coordinator_epoch,
            )
        ]
    )

    def ask(where: Destination, _: Sequence[TopicPartition]) -> Ask[WriteTxnMarkersResponse]:
        return Ask(where, WriteTxnMarkersRequest, WriteTxnMarkersResponse, lambda _: request)

    raise_first(await plan.per_leader([partition], ask, _read_markers))


def _read_markers(response: WriteTxnMarkersResponse) -> dict[TopicPartition, ApiError | None]:
    return {
        TopicPartition(topic.name, part.partition_index): refused(
            part.error_code, f"abort marker in {topic.name}-{part.partition_index}"
        )
        if part.error_code
        else None
        for marker in response.markers
        for topic in marker.topics
        for part in topic.partitions
    }


async def terminate(plan: ClusterPlan, transactional_id: str) -> ProducerIdentity:
    """Fence the producer that has a transactional id; its open transaction is aborted."""
    return await transfer.init_producer_id(plan, transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS)


async def open_transactions(
    plan: ClusterPlan, partitions: Sequence[TopicPartition], broker: int | None = None
) -> list[OpenTransaction]:
    """The transactions that these partitions have open; raises where one of them cannot be asked."""
    found = []
    for start in range(0, len(partitions), _MOST_AT_ONCE):
        described = raise_first(await describe_producers(plan, partitions[start : start + _MOST_AT_ONCE], broker))
        found += [
            OpenTransaction(partition, producer)
            for partition, producers in described.items()
            for producer in producers
            if producer.current_txn_start_offset >= 0
        ]
    return found


async def hanging_transactions(
    plan: ClusterPlan,
    older_than_ms: float,
    now_ms: float,
    *,
    topics: Collection[str] | None = None,
    partitions: Sequence[TopicPartition] | None = None,
    broker: int | None = None,
) -> list[OpenTransaction]:
    """Search these partitions, or all of these topics, or of every topic; with a broker, those it has a replica of.

    A transaction counts once its last record is so old; `now_ms` is the time of day.
    """
    if partitions is None:
        partitions = await _partitions_to_search(plan, topics, broker)
    found = await open_transactions(plan, partitions, broker)
    return await _hanging(plan, [each for each in found if now_ms - each.producer.last_timestamp > older_than_ms])


async def _partitions_to_search(
    plan: ClusterPlan, topics: Collection[str] | None, broker: int | None
) -> list[TopicPartition]:
    if topics is None:
        await plan.refresh(None)
        topics = sorted(plan.metadata.topics)
    found = []
    for topic in topics:
        view = await plan.topic(topic)
        found += [
            TopicPartition(topic, index)
            for index, partition in view.partitions.items()
            if broker is None or broker in partition.replicas
        ]
    return found


async def _hanging(plan: ClusterPlan, candidates: Collection[OpenTransaction]) -> list[OpenTransaction]:
    """The open transactions that no coordinator means to end."""
    if not candidates:
        return []
    listed = await list_transactions(plan, producer_ids={each.producer.producer_id for each in candidates})
    names = {each.producer_id: each.transactional_id for each in listed}
    described = await describe_transactions(plan, sorted(set(names.values())))
    return select_hanging(candidates, names, described)


def select_hanging(
    candidates: Iterable[OpenTransaction],
    names: Mapping[int, str],
    described: Mapping[str, DescribedTransaction | ApiError],
) -> list[OpenTransaction]:
    """Choose the hanging ones by the transactional id of each producer id; raise an error of a coordinator."""
    found = []
    for each in candidates:
        name = names.get(each.producer.producer_id)
        transaction = None if name is None else described[name]
        if isinstance(transaction, ApiError):
            if transaction.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise transaction
            transaction = None
        if transaction is None or each.partition not in transaction.partitions:
            found.append(each)
    return found
