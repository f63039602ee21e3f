"""AddOffsetsToTxn (key 25, versions 0 to 4): the partition with a group's offsets joins a transaction (KIP-98).

With `transaction.version` 2 clients leave it out: TxnOffsetCommit adds the partition (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC
from ottla.broker.coordinators.transaction_coordinator import add_partitions, fenced_as
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_KNOWS_FENCED_SINCE = 2


async def handle(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    node = call.node
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    if node.metadata.topic(OFFSETS_TOPIC) is None:
        await node.create_topic_as_configured(OFFSETS_TOPIC)
    index = node.groups.partition_for(request.group_id)
    if index is None:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    error = await add_partitions(
        node.transactions,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        frozenset({TopicPartition(OFFSETS_TOPIC, index)}),
        bumps=False,
        patience_ms=node.config.add_partitions_to_txn_retry_backoff_ms,
    )
    return AddOffsetsToTxnResponse(error_code=fenced_as(error, known=call.api_version >= _KNOWS_FENCED_SINCE))
