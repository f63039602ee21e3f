"""OffsetForLeaderEpoch (key 23, versions 2 to 4): the end offset of an epoch, to find where two histories differ.

Followers ask it (KIP-101), and consumers (KIP-320).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answer = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(answer)
        for asked in topic.partitions:
            answer.partitions.append(
                _end(call, topic.topic, asked.partition, asked.current_leader_epoch, asked.leader_epoch)
            )
    return response


def _end(call: Call, name: str, index: int, current_leader_epoch: int, leader_epoch: int) -> EpochEndOffset:
    partition = call.node.partition(name, NO_TOPIC_ID, index)
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(partition=index, error_code=partition)
    error = partition.epoch_error(current_leader_epoch)
    if error:
        return EpochEndOffset(partition=index, error_code=error)
    found = partition.log.epoch_end(leader_epoch)
    if found is None:
        return EpochEndOffset(partition=index)
    return EpochEndOffset(partition=index, leader_epoch=found.leader_epoch, end_offset=found.end_offset)
