"""InitProducerId (key 22, versions 0 to 6): an id and an epoch for an idempotent or a transactional producer (KIP-98).

A producer that names the id and epoch that it has gets the next epoch (KIP-360). While the cluster still has brokers
without transactions, a transactional id is answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED: of all codes this API may
give, it is the one that every client (Java, librdkafka, kafka-python, aiokafka) takes as final and shows to its user.
Two-phase commit (KIP-939, version 6) is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.transaction_coordinator import fenced_as
from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_PRODUCER_ID
from ottla.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.transactions.decisions import ExpectedProducer
from ottla.transactions.values import GivenProducer

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

NO_PRODUCER_EPOCH = -1
_KNOWS_FENCED_SINCE = 4


async def handle(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if error := _without_right(call, request):
        return _refused(error)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return await _transactional(call, request, request.transactional_id)
    taken = await call.node.producer_ids.take()
    if isinstance(taken, ErrorCode):
        return _refused(taken)
    return InitProducerIdResponse(producer_id=taken, producer_epoch=0)


async def _transactional(call: Call, request: InitProducerIdRequest, transactional_id: str) -> InitProducerIdResponse:
    node = call.node
    error = _refusal(call, request, transactional_id) or await node.producer_ids.ready()
    if error:
        return _refused(error)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = ExpectedProducer(request.producer_id, request.producer_epoch)
    answer: GivenProducer | ErrorCode = await node.transactions.ask(
        transactional_id,
        lambda shard, ticket, now: shard.init_producer_id(
            transactional_id, expected, request.transaction_timeout_ms, ticket, now
        ),
    )
    if isinstance(answer, ErrorCode):
        return _refused(answer)
    if answer.error:
        return _refused(fenced_as(answer.error, known=call.api_version >= _KNOWS_FENCED_SINCE))
    return InitProducerIdResponse(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)


def _without_right(call: Call, request: InitProducerIdRequest) -> ErrorCode:
    """NONE if the caller may have a producer id: for a transactional id by name, else with any topic to write to."""
    name, rights = request.transactional_id, call.node.rights
    if name is not None:
        may = call.may(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, name) and (
            not request.enable2_pc or call.may(Operation.TWO_PHASE_COMMIT, ResourceKind.TRANSACTIONAL_ID, name)
        )
        return ErrorCode.NONE if may else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if call.may(Operation.IDEMPOTENT_WRITE, ResourceKind.CLUSTER, CLUSTER_NAME, told=False):
        return ErrorCode.NONE
    assert rights is not None
    may = rights.may_on_any(call, Operation.WRITE, ResourceKind.TOPIC)
    return ErrorCode.NONE if may else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _refusal(call: Call, request: InitProducerIdRequest, transactional_id: str) -> ErrorCode:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not call.node.has_transactions or request.enable2_pc:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    if not 0 < request.transaction_timeout_ms <= call.node.config.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
