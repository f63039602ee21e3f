"""InitProducerId (key 22): an id for an idempotent producer. There are no transactions yet.

A transactional id is answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED: of all codes this API may give, it is the one that
every client (Java, librdkafka, kafka-python, aiokafka) takes as final and shows to its user. UNSUPPORTED_VERSION and
INVALID_REQUEST make librdkafka ask for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_PRODUCER_ID
from ottla.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.dispatch import Call

NO_PRODUCER_EPOCH = -1


async def handle(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return _refused(_why_not(request.transactional_id))
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    taken = await call.node.producer_ids.take()
    if isinstance(taken, ErrorCode):
        return _refused(taken)
    return InitProducerIdResponse(producer_id=taken, producer_epoch=0)


def _why_not(transactional_id: str) -> ErrorCode:
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if transactional_id else ErrorCode.INVALID_REQUEST


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
