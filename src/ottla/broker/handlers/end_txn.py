"""EndTxn (key 26, versions 0 to 5): commit or abort a transaction (KIP-98).

The answer means that the outcome is decided; markers follow. From version 5 on it has the producer's next epoch
(KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.transaction_coordinator import fenced_as
from ottla.kernel.errors import ErrorCode
from ottla.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.transactions.values import EPOCH_BUMPS, GivenProducer

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_KNOWS_FENCED_SINCE = 2
_BUMPS_SINCE = 5


async def handle(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    answer: GivenProducer | ErrorCode = await call.node.transactions.ask(
        request.transactional_id,
        lambda shard, ticket, now: shard.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            committed=request.committed,
            version=EPOCH_BUMPS if call.api_version >= _BUMPS_SINCE else 0,
            ticket=ticket,
            now=now,
        ),
    )
    if isinstance(answer, ErrorCode):
        return EndTxnResponse(error_code=answer)
    if answer.error:
        return EndTxnResponse(error_code=fenced_as(answer.error, known=call.api_version >= _KNOWS_FENCED_SINCE))
    if call.api_version < _BUMPS_SINCE:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)
