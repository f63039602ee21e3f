"""WriteTxnMarkers (key 27, versions 1 and 2): write the markers that end transactions; answered once committed.

Coordinators send it (KIP-98), and administrators who abort a hanging transaction (KIP-664). A marker with a negative
producer id or epoch is refused with INVALID_REQUEST: no producer has one. Apache Kafka answers -1 with
UNKNOWN_SERVER_ERROR, and writes markers of lower numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.marker_writing import WantedMarker
from ottla.broker.coordinators.shard_runner import TransactionEnd
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.transactions.values import EPOCH_BUMPS

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    wanted = [
        WantedMarker(
            TransactionEnd(
                marker.producer_id,
                marker.producer_epoch,
                marker.transaction_result,
                marker.coordinator_epoch,
                bumps=marker.transaction_version >= EPOCH_BUMPS,
            ),
            TopicPartition(topic.name, index),
        )
        for marker in request.markers
        if _has_producer(marker)
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    outcomes = iter(await call.node.markers.write(wanted))
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=next(outcomes) if _has_producer(marker) else ErrorCode.INVALID_REQUEST,
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _has_producer(marker: WritableTxnMarker) -> bool:
    return marker.producer_id >= 0 and marker.producer_epoch >= 0
