"""ListOffsets (key 2, versions 1 to 11): offsets by place (earliest, latest, largest timestamp) or by time.

KIP-79, KIP-734. Earliest and latest are answered from memory (rule E8). Readers of committed records get the last
stable offset. A record is acknowledged at `acks=1` before it is on disk, when the high watermark is still below it. So
all requests but earliest wait, for a bounded time, until the log's present records are committed; Apache Kafka, which
does not sync, need not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.control.longest_logs import ANY_REPLICA, log_end
from ottla.broker.replicas.partition import SETTLE_MS
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.kernel.story import Slot
from ottla.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.requests.call import Call

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER = 1 << 15
_NO_WAIT = frozenset({EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD})
_OFFSET_NOT_AVAILABLE_SINCE = 5


async def handle(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    response = ListOffsetsResponse()
    asked_twice = _asked_twice(request)
    await _settled(call, request)
    for topic in request.topics:
        answer = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answer)
        for asked in topic.partitions:
            if (topic.name, asked.partition_index) in asked_twice:
                found = ListOffsetsPartitionResponse(error_code=ErrorCode.INVALID_REQUEST)
            elif request.replica_id == ANY_REPLICA and call.peer is not None and asked.timestamp == LATEST:
                found = _end_here(call, topic.name, asked.partition_index)
            else:
                found = _look_up(call, topic.name, asked, request.isolation_level)
            found.partition_index = asked.partition_index
            answer.partitions.append(found)
    return response


async def _settled(call: Call, request: ListOffsetsRequest) -> None:
    """Wait until all records in the logs at the time of the call are committed, at most `SETTLE_MS`."""
    waits: list[Slot[ErrorCode]] = []
    for topic in request.topics:
        for asked in topic.partitions:
            if asked.timestamp not in _NO_WAIT:
                partition = call.node.partition(topic.name, NO_TOPIC_ID, asked.partition_index)
                if not isinstance(partition, ErrorCode):
                    wait = partition.settled(partition.log.end_offset, SETTLE_MS)
                    waits += [] if wait is None else [wait]
    for wait in waits:
        await wait  # the answer shows the state after the wait, however that ended


def _asked_twice(request: ListOffsetsRequest) -> set[tuple[str, int]]:
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            (twice if key in seen else seen).add(key)
    return twice


def _end_here(call: Call, name: str, index: int) -> ListOffsetsPartitionResponse:
    """The log end offset of a replica, leader or not: another broker asks, to elect the longest log."""
    partition = call.node.partition(name, NO_TOPIC_ID, index)
    end = partition if isinstance(partition, ErrorCode) else log_end(partition.log)
    if isinstance(end, ErrorCode):
        return ListOffsetsPartitionResponse(error_code=end)
    return ListOffsetsPartitionResponse(offset=end.offset, leader_epoch=end.epoch)


def _look_up(call: Call, name: str, asked: ListOffsetsPartition, isolation_level: int) -> ListOffsetsPartitionResponse:
    partition = call.node.partition(name, NO_TOPIC_ID, asked.partition_index)
    if isinstance(partition, ErrorCode):
        return ListOffsetsPartitionResponse(error_code=partition)
    error = partition.epoch_error(asked.current_leader_epoch)
    if error:
        return ListOffsetsPartitionResponse(error_code=error)
    log = partition.log
    what = asked.timestamp
    if what < 0 and call.api_version < _SINCE_VERSION.get(what, _NEVER):
        return ListOffsetsPartitionResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if what == LATEST:
        if not _knows_committed(partition):
            return ListOffsetsPartitionResponse(error_code=_not_yet(call))
        end = log.last_stable_offset if isolation_level else log.high_watermark
        return ListOffsetsPartitionResponse(offset=end, leader_epoch=partition.leader_epoch)
    if what in (EARLIEST, EARLIEST_LOCAL):
        return ListOffsetsPartitionResponse(
            offset=log.log_start_offset, leader_epoch=log.epochs.epoch_at(log.log_start_offset)
        )
    if what in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return ListOffsetsPartitionResponse()  # there is no remote tier
    try:
        found = log.max_timestamp_offset() if what == MAX_TIMESTAMP else log.offset_for_timestamp(what)
    except OSError as fault:
        call.node.disk_failed(fault)
        return ListOffsetsPartitionResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    limit = log.last_stable_offset if isolation_level else log.high_watermark
    if found is None or found.offset >= limit:
        error = ErrorCode.NONE if _knows_committed(partition) else _not_yet(call)
        return ListOffsetsPartitionResponse(error_code=error)
    return ListOffsetsPartitionResponse(timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch)


def _knows_committed(partition: Partition) -> bool:
    """True if the leader's high watermark has reached all that earlier leaders committed (KIP-207)."""
    return partition.leader is not None and partition.leader.knows_committed


def _not_yet(call: Call) -> ErrorCode:
    known = call.api_version >= _OFFSET_NOT_AVAILABLE_SINCE
    return ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE
