"""DescribeProducers (key 61, version 0): the idempotent producers of a partition, and where their transactions began.

KIP-664: used to find hanging transactions. A partition that is named several times is answered once: with many
producers the answer would be far larger than the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replicas.partition import ANY_EPOCH
from ottla.broker.waiting import next_turn
from ottla.cluster.topics import name_error
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_PRODUCERS_A_TURN = 1000


async def handle(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    seen: set[tuple[str, int]] = set()
    listed = 0
    for topic in request.topics:
        described = TopicResponse(name=topic.name)
        response.topics.append(described)
        for index in topic.partition_indexes:
            if (topic.name, index) in seen:
                continue
            seen.add((topic.name, index))
            if listed > _PRODUCERS_A_TURN:
                await next_turn(call.node.clock)
                listed = 0
            partition = _describe(call, topic.name, index)
            described.partitions.append(partition)
            listed += 1 + len(partition.active_producers)
    return response


def _describe(call: Call, name: str, index: int) -> PartitionResponse:
    if wrong := name_error(name):
        message = f"Topic name is invalid: {wrong}"
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=message
        )
    partition = call.node.partition(name, NO_TOPIC_ID, index)
    if isinstance(partition, ErrorCode):
        return PartitionResponse(partition_index=index, error_code=partition)
    error = partition.epoch_error(ANY_EPOCH)
    if error:
        return PartitionResponse(partition_index=index, error_code=error)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_transaction_start_offset,
            )
            for producer in partition.log.active_producers()
        ],
    )
