"""AddPartitionsToTxn, key 24: add partitions to transactions, or ask whether they are in them.

Clients send versions 0 to 3, of one transaction; brokers send 4 and 5, of many.
"""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Int16, Int32, Int64, String


@struct()
class AddPartitionsToTxnTopic:
    name: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct()
class AddPartitionsToTxnTransaction:
    transactional_id: str = field(String, since=4)
    producer_id: int = field(Int64, since=4)
    producer_epoch: int = field(Int16, since=4)
    verify_only: bool = field(Bool, since=4)
    topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic), since=4)


@message(versions=(0, 5), flexible_since=3)
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = field(Array(AddPartitionsToTxnTransaction), since=4)
    v3_and_below_transactional_id: str = field(String, until=3)
    v3_and_below_producer_id: int = field(Int64, until=3)
    v3_and_below_producer_epoch: int = field(Int16, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic), until=3)


@struct()
class AddPartitionsToTxnPartitionResult:
    partition_index: int = field(Int32)
    partition_error_code: int = field(Int16)


@struct()
class AddPartitionsToTxnTopicResult:
    name: str = field(String)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(Array(AddPartitionsToTxnPartitionResult))


@struct()
class AddPartitionsToTxnResult:
    transactional_id: str = field(String, since=4)
    topic_results: list[AddPartitionsToTxnTopicResult] = field(Array(AddPartitionsToTxnTopicResult), since=4)


@message(versions=(0, 5), flexible_since=3)
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(Array(AddPartitionsToTxnResult), since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        Array(AddPartitionsToTxnTopicResult), until=3
    )


def refusal(request: AddPartitionsToTxnRequest, error: int, version: int) -> AddPartitionsToTxnResponse | None:
    """For the whole from version 4 on; before, for each partition."""
    if version >= 4:
        return AddPartitionsToTxnResponse(error_code=error)
    topics = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                for index in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    if not any(topic.results_by_partition for topic in topics):
        return None
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
