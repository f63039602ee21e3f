"""WriteTxnMarkers, key 27: end transactions in partitions; from their coordinator, or from an administrator."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int8, Int16, Int32, Int64, String


@struct()
class WritableTxnMarkerTopic:
    name: str = field(String)
    partition_indexes: list[int] = field(Array(Int32))


@struct()
class WritableTxnMarker:
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    transaction_result: bool = field(Bool)
    topics: list[WritableTxnMarkerTopic] = field(Array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(Int32)
    transaction_version: int = field(Int8, since=2)


@message(versions=(1, 2), flexible_since=1)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field(Array(WritableTxnMarker))


@struct()
class WritableTxnMarkerPartitionResult:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct()
class WritableTxnMarkerTopicResult:
    name: str = field(String)
    partitions: list[WritableTxnMarkerPartitionResult] = field(Array(WritableTxnMarkerPartitionResult))


@struct()
class WritableTxnMarkerResult:
    producer_id: int = field(Int64)
    topics: list[WritableTxnMarkerTopicResult] = field(Array(WritableTxnMarkerTopicResult))


@message(versions=(1, 2), flexible_since=1)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field(Array(WritableTxnMarkerResult))


def refusal(request: WriteTxnMarkersRequest, error: int, version: int) -> WriteTxnMarkersResponse | None:
    markers = [
        WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]
    is_said = any(topic.partitions for marker in markers for topic in marker.topics)
    return WriteTxnMarkersResponse(markers=markers) if is_said else None
