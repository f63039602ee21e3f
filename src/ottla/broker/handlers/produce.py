"""Produce (key 0, versions 3 to 13): append each partition's batch; answer once enough replicas hold it, by `acks`.

Faulty records are named from version 8 on (KIP-467), the current leader from version 10 on (KIP-951). From version 12
on a batch adds its partition to its transaction (KIP-890); version 13 has topics by id (KIP-516).

Refused alike by Apache Kafka: acks other than -1, 0, 1; more than one batch or none per partition; control batches.
Unlike there, acks=-1 is answered when the batch is on disk on every in-sync replica, not in their page caches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.replicas.admission import RefusedBatch
from ottla.broker.replicas.partition import ALL_IN_SYNC, Partition
from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import Slot
from ottla.storage.values import Appended
from ottla.wire.hot import Part, Produce, ProducedTopic
from ottla.wire.hot_answers import encode_produced, not_produced

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call
    from ottla.broker.requests.produce_in_transaction import ClearedProduce
    from ottla.broker.requests.produce_refused import RefusedAt
    from ottla.messages.produce import ProduceResponse

_ADMIN_CLIENT = "__admin_client"
"""The client id with which Kafka lets a producer write to internal topics."""
_ACKS = (ALL_IN_SYNC, 0, 1)
_TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT
Pending = tuple[list[Any], int, Partition, Appended]


async def handle(call: Call, request: Produce) -> list[Part] | ProduceResponse:
    node = call.node
    acks = request.acks
    refused: list[ProducedTopic] = []
    if node.rights is not None:
        from ottla.broker.requests.produce_rights import within_rights

        request, refused = within_rights(call, request)
    cleared: ClearedProduce | None = None
    if request.transactional_id is not None:
        from ottla.broker.requests.produce_in_transaction import clear

        cleared = await clear(call, request)
        request = cleared.request
    wall_ms = node.clock.wall_ms()
    answers: list[ProducedTopic] = []
    pending: list[Pending] = []
    failed = False
    explained: list[RefusedAt] = []
    for name, topic_id, records_of in request.topics:
        partitions: list[Any] = []
        answers.append((name, topic_id, partitions))
        for index, records in records_of:
            partition = node.partition(name, topic_id, index)
            outcome: Appended | ErrorCode | RefusedBatch
            if partition.__class__ is not Partition:
                outcome = partition  # type: ignore[assignment]
            elif partition.is_internal and call.client_id != _ADMIN_CLIENT:
                outcome = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif acks not in _ACKS:
                outcome = ErrorCode.INVALID_REQUIRED_ACKS
            else:
                if cleared is None:
                    outcome = partition.produce(records, acks=acks, wall_ms=wall_ms)
                else:
                    outcome = cleared.append(partition, (len(answers) - 1, len(partitions)), records, acks, wall_ms)
                partition.traffic.produces += 1
            if outcome.__class__ is Appended:
                if acks == ALL_IN_SYNC:
                    pending.append((partitions, len(partitions), partition, outcome))  # type: ignore[arg-type]
                partitions.append((index, 0, outcome.base_offset, outcome.append_time_ms, outcome.log_start_offset))
            else:
                failed = True
                outcome = _with_reason(partition, outcome)  # type: ignore[arg-type]
                if outcome.__class__ is RefusedBatch:
                    from ottla.broker.requests.produce_refused import RefusedAt

                    explained.append(RefusedAt(len(answers) - 1, len(partitions), outcome))
                partitions.append(not_produced(index, _refused(call, partition, outcome)))
    # Counted before the waits: no further request of a client over its quota begins.
    throttle_ms = node.quotas.produced(call.connection, _bytes_in(request)) if node.quotas.on_produce else 0
    # All waits begin now: they belong to this epoch (rule A9), and share one timeout.
    waits = [partition.committed(appended.next_offset, request.timeout_ms) for _, _, partition, appended in pending]
    for (partitions, place, _, _), committed in zip(pending, waits, strict=True):
        error = await committed if isinstance(committed, Slot) else committed
        if error:
            failed = True
            partitions[place] = not_produced(partitions[place][0], error)
    answers, failed = [*answers, *refused] if refused else answers, failed or bool(refused)
    return _answer(call, request, answers, explained, failed=failed, throttle_ms=throttle_ms)


def _answer(
    call: Call,
    request: Produce,
    answers: list[ProducedTopic],
    explained: list[RefusedAt],
    *,
    failed: bool,
    throttle_ms: int,
) -> list[Part] | ProduceResponse:
    if request.acks == 0:
        if failed:
            call.connection.close()
        return []
    if failed and call.api_version >= 8:
        from ottla.broker.requests.produce_refused import explain

        return explain(call, answers, explained, throttle_ms=throttle_ms)
    return [encode_produced(call.correlation_id, call.api_version, answers, throttle_ms)]


def _bytes_in(request: Produce) -> int:
    """The bytes of all batches as they came."""
    return sum(len(records) for _, _, each in request.topics for _, records in each if records is not None)


def _with_reason(partition: Partition | ErrorCode, why: ErrorCode | RefusedBatch) -> ErrorCode | RefusedBatch:
    """The same error; where the disk is the cause it says so, as clients try again for minutes."""
    if why is not ErrorCode.KAFKA_STORAGE_ERROR or not isinstance(partition, Partition):
        return why
    if partition.log.refusing:
        return RefusedBatch(why, "The log takes no records since a fault of its disk; the broker's log says which.")
    return RefusedBatch(why, "The disk of the log directory is full: records are refused until there is room.")


def _refused(call: Call, partition: Partition | ErrorCode, why: ErrorCode | RefusedBatch) -> ErrorCode:
    """The error code of a refusal; it is counted if the partition is here."""
    error = why.error if isinstance(why, RefusedBatch) else why
    if isinstance(partition, Partition):
        partition.traffic.failed_produces += 1
        if error == ErrorCode.KAFKA_STORAGE_ERROR and not partition.log.refusing:  # only for lack of room
            call.node.full_disks.refused(partition.log)
    return error
