"""One partition's bytes: a fetch of whole batches from its leader, a produce of one prepared batch to it.

Spark's tasks and the tools use this; `consuming` and `producing` serve many partitions at once with the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.client.core.effects import Ask
from ottla.client.core.plan import TRANSACTION, ClusterPlan
from ottla.client.errors import ClientError, ProtocolViolation, refused
from ottla.client.model import (
    AbortedRange,
    Broker,
    Destination,
    Fetched,
    InTransaction,
    IsolationLevel,
    Produced,
    ProducerIdentity,
)
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records.header import BOUNDS, EPOCH_AT, HEADER_SIZE, INT32, LAST_DELTA_AT, SIZE_OVERHEAD

FETCH_MAX_BYTES = 50 * 1024 * 1024
PARTITION_MAX_BYTES = 1024 * 1024
_RECORDS_V2 = 3
_BROKERS_ADD = 12
NAMES_ONLY = 12
"""The last versions of Fetch and Produce that speak of topics by name."""

MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors of one partition after which metadata is fetched again and the request repeated."""


def whole_batches(records: memoryview) -> tuple[int, int]:
    """The length of the whole batches at the start, and the offset after the last of them (-1: there is none)."""
    last, size = _last_whole(records)
    return size, _next_offset(records, last)


def _last_whole(records: memoryview) -> tuple[int, int]:
    """The positions at which the last whole batch begins (-1: there is none) and ends."""
    position, end, last = 0, len(records), -1
    while end - position >= HEADER_SIZE:
        _, length = BOUNDS.unpack_from(records, position)
        size = length + SIZE_OVERHEAD
        if size < HEADER_SIZE:
            raise ProtocolViolation(f"a batch of {size} bytes at byte {position} of a Fetch answer")
        if size > end - position:
            break
        last, position = position, position + size
    return last, position


def _next_offset(records: memoryview, last: int) -> int:
    """The offset after the batch at a position; -1 for position -1."""
    if last < 0:
        return -1
    (base_offset, _), (delta,) = BOUNDS.unpack_from(records, last), INT32.unpack_from(records, last + LAST_DELTA_AT)
    return int(base_offset + delta + 1)


def fetched(topic: str, offset: int, data: PartitionData) -> Fetched:
    """One partition of a Fetch answer as a value."""
    records = memoryview(b"") if data.records is None else memoryview(data.records)
    last, size = _last_whole(records)
    if len(records) and not size and not data.error_code:
        raise ProtocolViolation(f"{topic}-{data.partition_index}: a Fetch answer without one whole batch")
    aborted = [AbortedRange(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    return Fetched(
        topic,
        data.partition_index,
        offset,
        max(_next_offset(records, last), offset),
        records[:size],
        data.high_watermark,
        data.last_stable_offset if data.last_stable_offset >= 0 else data.high_watermark,
        data.log_start_offset,
        aborted,
        known_code(data.error_code),
        -1 if last < 0 else INT32.unpack_from(records, last + EPOCH_AT)[0],
    )


def known_code(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


async def fetch(
    plan: ClusterPlan,
    topic: str,
    partition: int,
    offset: int,
    *,
    max_bytes: int = PARTITION_MAX_BYTES,
    min_bytes: int = 1,
    max_wait_ms: int = 500,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    leader_epoch: int | None = None,
    timeout_ms: float | None = None,
) -> Fetched:
    """Whole batches from `offset` on, at least one where there is one. Leader changes are followed.

    OFFSET_OUT_OF_RANGE and other errors that are about the offset stand in `error`; the rest is raised.
    """
    attempts = plan.attempts(timeout_ms)
    while True:
        where = await plan.leader(topic, partition)
        ask = fetch_ask(
            plan,
            where.destination("fetch"),
            topic,
            partition,
            offset,
            max_bytes=max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            isolation_level=isolation_level,
            leader_epoch=leader_epoch,
        )
        try:
            response = await ask
        except ClientError as fault:
            plan.metadata.doubt(topic)
            await attempts.after(fault)
            continue
        code, result = read_fetch(plan, topic, partition, offset, response)
        if result is not None and code not in MOVED:
            return result
        await attempts.after(refused(code, f"fetch of {topic}-{partition} at {offset}"))


def fetch_ask(
    plan: ClusterPlan,
    where: Destination,
    topic: str,
    partition: int,
    offset: int,
    *,
    max_bytes: int = PARTITION_MAX_BYTES,
    min_bytes: int = 1,
    max_wait_ms: int = 500,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    leader_epoch: int | None = None,
) -> Ask[FetchResponse]:
    """One Fetch of one partition, without a session."""
    epoch = plan.metadata.leader_epoch(topic, partition) if leader_epoch is None else leader_epoch
    topic_id = plan.metadata.topic_id(topic)

    def build(version: int) -> FetchRequest:
        part = FetchPartition(
            partition=partition,
            current_leader_epoch=epoch if version >= 9 else -1,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
        )
        by_id = version > NAMES_ONLY
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(isolation_level),
            session_epoch=-1,
            topics=[
                FetchTopic(topic_id=topic_id, partitions=[part])
                if by_id
                else FetchTopic(topic=topic, partitions=[part])
            ],
        )

    most = 32767 if any(topic_id) else NAMES_ONLY
    timeout_ms = max_wait_ms + plan.settings.request_timeout_ms
    return Ask(where, FetchRequest, FetchResponse, build, min_version=4, max_version=most, timeout_ms=timeout_ms)


def read_fetch(
    plan: ClusterPlan, topic: str, partition: int, offset: int, response: FetchResponse
) -> tuple[ErrorCode, Fetched | None]:
    """The partition's part of an answer to `fetch_ask`; a leader that it names is noted (KIP-951)."""
    if response.error_code:
        plan.metadata.doubt(topic)
        return known_code(response.error_code), None
    for part in response.responses:
        for data in part.partitions:
            if data.partition_index != partition:
                continue
            code = known_code(data.error_code)
            if code in MOVED:
                leader = data.current_leader
                note_leader(
                    plan, TopicPartition(topic, partition), leader.leader_id, leader.leader_epoch, endpoints(response)
                )
                return code, None
            return code, fetched(topic, offset, data)
    return ErrorCode.UNKNOWN_SERVER_ERROR, None


def endpoints(response: FetchResponse | ProduceResponse) -> list[Broker]:
    return [Broker(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]


def note_leader(
    plan: ClusterPlan, partition: TopicPartition, leader: int, epoch: int, brokers: Iterable[Broker]
) -> None:
    """An answer said that the partition moved: go where it points, else ask for metadata."""
    if leader >= 0:
        plan.metadata.hint(partition, leader, epoch, brokers)
    else:
        plan.metadata.doubt(partition.topic)


async def produce(
    plan: ClusterPlan,
    topic: str,
    partition: int,
    batch: bytes | bytearray | memoryview,
    *,
    acks: int = -1,
    delivery_timeout_ms: int = 120_000,
    request_timeout_ms: int | None = None,
    retries: bool = True,
    transaction: InTransaction | None = None,
) -> Produced:
    """Append one prepared batch. It is sent again after lost connections unless `retries=False`:

    with a producer id and sequence in its header that is safe, without them it may land twice.
    """
    attempts = plan.attempts(delivery_timeout_ms)
    timeout_ms = request_timeout_ms or plan.settings.request_timeout_ms
    while True:
        where = await plan.leader(topic, partition)
        build = produce_build(plan, [(topic, partition, batch)], acks, timeout_ms, transaction)
        least, most = produce_versions(plan, [topic], transaction)
        ask = Ask(
            where.destination("produce"),
            ProduceRequest,
            ProduceResponse,
            build,
            min_version=least,
            max_version=most,
            timeout_ms=timeout_ms + plan.settings.request_timeout_ms,
        )
        try:
            response = await ask
        except ClientError as fault:
            if not retries:
                raise
            plan.metadata.doubt(topic)
            await attempts.after(fault)
            continue
        if acks == 0:
            return Produced(-1)
        part = response.responses[0].partition_responses[0]
        outcome = read_produced(plan, topic, part, response)
        if isinstance(outcome, Produced):
            return outcome
        if not retries:
            raise outcome
        await attempts.after(outcome)


def produce_versions(plan: ClusterPlan, topics: Iterable[str], transaction: InTransaction | None) -> tuple[int, int]:
    """The first and last version of Produce that will do: 13 wants topic ids, 12 adds partitions to transactions."""
    if transaction is not None and not transaction.brokers_add:
        return _RECORDS_V2, _BROKERS_ADD - 1
    newest = 32767 if all(any(plan.metadata.topic_id(topic)) for topic in topics) else NAMES_ONLY
    return (_RECORDS_V2 if transaction is None else _BROKERS_ADD), newest


def produce_build(
    plan: ClusterPlan,
    batches: Iterable[tuple[str, int, bytes | bytearray | memoryview]],
    acks: int,
    timeout_ms: int,
    transaction: InTransaction | None = None,
) -> Callable[[int], ProduceRequest]:
    """A request with one batch for each of some partitions."""
    grouped: dict[str, list[PartitionProduceData]] = {}
    for topic, partition, batch in batches:
        grouped.setdefault(topic, []).append(PartitionProduceData(index=partition, records=memoryview(batch)))

    def build(version: int) -> ProduceRequest:
        by_id = version > NAMES_ONLY
        return ProduceRequest(
            transactional_id=None if transaction is None else transaction.transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(topic_id=plan.metadata.topic_id(topic), partition_data=parts)
                if by_id
                else TopicProduceData(name=topic, partition_data=parts)
                for topic, parts in grouped.items()
            ],
        )

    return build


def read_produced(
    plan: ClusterPlan, topic: str, part: PartitionProduceResponse, response: ProduceResponse
) -> Produced | ApiError:
    """One partition's part of a Produce answer; a leader that it names is noted."""
    code = known_code(part.error_code)
    if code is ErrorCode.NONE:
        return Produced(part.base_offset, part.log_append_time_ms, part.log_start_offset)
    if code in MOVED:
        leader = part.current_leader
        note_leader(plan, TopicPartition(topic, part.index), leader.leader_id, leader.leader_epoch, endpoints(response))
    details = "; ".join(
        f"record {each.batch_index}: {each.batch_index_error_message or code.message}" for each in part.record_errors
    )
    message = " ".join(text for text in (part.error_message or code.message, details) if text)
    return refused(part.error_code, f"produce to {topic}-{part.index}", message)


async def init_producer_id(
    plan: ClusterPlan,
    transactional_id: str | None = None,
    *,
    transaction_timeout_ms: int = 60_000,
    current: ProducerIdentity | None = None,
    where: Destination | None = None,
) -> ProducerIdentity:
    """A producer id; with a transactional id from its coordinator, which fences the earlier holder.

    `current` asks to bump the epoch of an id that this producer holds (KIP-360). `where` names the broker to ask for an
    id without a transactional one, by default any that answers.
    """
    held = current or ProducerIdentity(-1, -1)

    def build(_version: int) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms if transactional_id is not None else 2_147_483_647,
            producer_id=held.producer_id,
            producer_epoch=held.producer_epoch,
        )

    least = 3 if current is not None else 0

    def ask(where: Destination) -> Ask[InitProducerIdResponse]:
        return Ask(where, InitProducerIdRequest, InitProducerIdResponse, build, min_version=least)

    attempts = plan.attempts()
    while True:
        if transactional_id is not None:
            response = await plan.ask_coordinator(
                transactional_id, ask, lambda answer: answer.error_code, kind=TRANSACTION
            )
        elif where is not None:
            response = await ask(where)
        else:
            response = await plan.ask_any(InitProducerIdRequest, InitProducerIdResponse, build, min_version=least)
        if not response.error_code:
            return ProducerIdentity(response.producer_id, response.producer_epoch)
        await attempts.after(refused(response.error_code, "getting a producer id"))
