"""DescribeTopicPartitions (key 75, version 0): topics with all that is agreed on about their partitions, page by page.

KIP-966: lists eligible leaders beside the in-sync replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.operations import allowed_operations
from ottla.broker.waiting import A_TURN, next_turn
from ottla.cluster.protection import INTERNAL_TOPICS
from ottla.cluster.topics import name_error
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.state import Metadata

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Topics in the order of their names, from the cursor on; the next cursor says where the page ended."""
    metadata = call.node.metadata
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "DescribeTopicPartitionsRequest cursor partition must be valid.")
    names = sorted({topic.name for topic in request.topics})
    if not names:
        names = [
            topic.name
            for topic in metadata.visible_topics()
            if call.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.name, told=False)
        ]
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    room = max(1, min(request.response_partition_limit, call.node.config.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    for number, name in enumerate(names, 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        if not call.may(Operation.DESCRIBE, ResourceKind.TOPIC, name):
            response.topics.append(_hidden(name))
            continue
        described = _describe(call, name, first, room)
        response.topics.append(described)
        room -= len(described.partitions)
        topic = metadata.topic(name)
        reached = first + len(described.partitions)
        if topic is not None and reached < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=reached)
            break
    return response


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _describe(call: Call, name: str, first: int, room: int) -> DescribeTopicPartitionsResponseTopic:
    metadata, operations = call.node.metadata, allowed_operations(call, ResourceKind.TOPIC, name)
    described = DescribeTopicPartitionsResponseTopic(name=name, topic_authorized_operations=operations)
    topic = metadata.topic(name)
    if topic is None:
        unknown, wrong = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
        described.error_code = unknown if name_error(name) is None else wrong
        return described
    described.topic_id = topic.topic_id
    described.is_internal = name in INTERNAL_TOPICS
    described.partitions = [_partition(metadata, one) for one in topic.partitions[first : first + room]]
    return described


def _partition(metadata: Metadata, partition: PartitionState) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if partition.has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.in_sync),
        eligible_leader_replicas=list(partition.eligible),
        last_known_elr=list(partition.last_known),
        offline_replicas=list(metadata.offline_replicas(partition)),
    )
