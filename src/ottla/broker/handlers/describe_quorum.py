"""DescribeQuorum (key 55, versions 0 to 2): Kafka's tools ask it how the metadata is kept (KIP-595).

Unlike in Apache Kafka it is kept in a coordination store, not by a quorum of brokers. The answer uses the tools'
terms: the caretaker is the leader, every live broker is a voter, and all live ones are at the version that this broker
has applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    RequestPartitionData,
    TopicData,
)
from ottla.metadata.state import Metadata

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

METADATA_TOPIC = "__cluster_metadata"


async def handle(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    metadata = call.node.metadata
    response = DescribeQuorumResponse()
    for topic in request.topics:
        described = TopicData(topic_name=topic.topic_name)
        for partition in topic.partitions:
            described.partitions.append(_describe(metadata, topic.topic_name, partition, call.node.clock.wall_ms()))
        response.topics.append(described)
    for broker in metadata.live_brokers():
        listeners = [Listener(name=one.name, host=one.host, port=one.port) for one in broker.listeners]
        response.nodes.append(Node(node_id=broker.broker_id, listeners=listeners))
    return response


def _describe(metadata: Metadata, topic: str, asked: RequestPartitionData, wall_ms: int) -> PartitionData:
    described = PartitionData(partition_index=asked.partition_index, error_message=None)
    if topic != METADATA_TOPIC or asked.partition_index != 0:
        described.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        described.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
        return described
    caretaker = metadata.brokers.get(metadata.caretaker())
    if caretaker is None:
        described.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        return described
    described.leader_id = caretaker.broker_id
    described.leader_epoch = min(caretaker.epoch, (1 << 31) - 1)
    described.high_watermark = metadata.version
    described.current_voters = [
        ReplicaState(
            replica_id=broker.broker_id,
            replica_directory_id=broker.incarnation,
            log_end_offset=metadata.version,
            last_fetch_timestamp=wall_ms,
            last_caught_up_timestamp=wall_ms,
        )
        for broker in metadata.live_brokers()
    ]
    return described
