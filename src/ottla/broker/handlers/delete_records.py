"""DeleteRecords (key 21, versions 0 to 2): raise the start of a log; -1 means up to the high watermark (KIP-107).

It is answered once every in-sync replica starts there too, also after a crash, so that another leader does not undo it.
Unlike Apache Kafka, it first waits for a bounded time until records acknowledged at `acks=1` are committed: only
committed records can be deleted. Records of internal and of compacted topics are deleted where an administrator has set
`deletion.protection=false` on the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replicas.partition import ANY_EPOCH, SETTLE_MS
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.kernel.story import Slot
from ottla.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.storage.log import FULL_DISK

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    await _settled(call, request)
    for topic in request.topics:
        answer = DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(answer)
        for asked in topic.partitions:
            start, error = _delete(call, topic.name, asked.partition_index, asked.offset)
            answer.partitions.append(
                DeleteRecordsPartitionResult(
                    partition_index=asked.partition_index, low_watermark=start, error_code=error
                )
            )
    _note_down(call, [each for topic in response.topics for each in topic.partitions if not each.error_code])
    await _everywhere(call, response, request.timeout_ms)
    return response


async def _settled(call: Call, request: DeleteRecordsRequest) -> None:
    """Wait until the records below the requested offsets are committed, or the time is up."""
    waits: list[Slot[ErrorCode]] = []
    for topic in request.topics:
        for asked in topic.partitions:
            partition = call.node.partition(topic.name, NO_TOPIC_ID, asked.partition_index)
            if not isinstance(partition, ErrorCode):
                through = partition.log.end_offset if asked.offset < 0 else asked.offset
                wait = partition.settled(through, min(SETTLE_MS, max(0, request.timeout_ms)))
                waits += [] if wait is None else [wait]
    for wait in waits:
        await wait


async def _everywhere(call: Call, response: DeleteRecordsResponse, timeout_ms: int) -> None:
    waits: list[tuple[DeleteRecordsPartitionResult, Slot[ErrorCode]]] = []
    for topic in response.topics:
        for each in topic.partitions:
            partition = call.node.partition(topic.name, NO_TOPIC_ID, each.partition_index)
            if not each.error_code and not isinstance(partition, ErrorCode):
                waits.append((each, partition.starts.everywhere(partition.leader, each.low_watermark, timeout_ms)))
    for each, slot in waits:
        error = await slot
        if error:
            each.low_watermark, each.error_code = -1, error


def _delete(call: Call, name: str, index: int, offset: int) -> tuple[int, ErrorCode]:
    partition = call.node.partition(name, NO_TOPIC_ID, index)
    if isinstance(partition, ErrorCode):
        return -1, partition
    protection = partition.config.deletion_protection
    if protection != "false" and partition.is_internal:
        return -1, ErrorCode.INVALID_TOPIC_EXCEPTION
    if protection == "true":
        return -1, ErrorCode.POLICY_VIOLATION
    error = partition.epoch_error(ANY_EPOCH)
    if error:
        return -1, error
    policy = partition.config.cleanup_policy
    if protection != "false" and policy and "delete" not in policy:
        return -1, ErrorCode.POLICY_VIOLATION
    try:
        start = partition.log.delete_records_before(offset)
    except OSError as fault:
        return -1, _failed(call, fault)
    if isinstance(start, ErrorCode):
        return -1, start
    partition.mark()
    return start, ErrorCode.NONE


def _note_down(call: Call, done: list[DeleteRecordsPartitionResult]) -> None:
    """Write the new starts of all in one checkpoint; if that fails, none of them is promised."""
    if done and not call.node.replicas.upkeep.note_starts():
        for each in done:
            each.low_watermark, each.error_code = -1, ErrorCode.KAFKA_STORAGE_ERROR


def _failed(call: Call, fault: OSError) -> ErrorCode:
    """The error for a failed write: a full disk only refuses the request (rule B3)."""
    if fault.errno not in FULL_DISK:
        call.node.disk_failed(fault)
    return ErrorCode.KAFKA_STORAGE_ERROR
