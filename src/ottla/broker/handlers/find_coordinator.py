"""FindCoordinator (key 10, versions 0 to 6): which broker coordinates groups or transactional ids (KIP-699).

The first request makes the topic. Apache Kafka answers it with COORDINATOR_NOT_AVAILABLE and lets the client ask again;
here it waits for the topic. While the cluster still has brokers without transactions, their coordinator is
refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the one code that Java's clients and librdkafka both take as final
(librdkafka asks for ever at INVALID_REQUEST).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC
from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC
from ottla.broker.waiting import A_TURN, next_turn
from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call
    from ottla.broker.requests.services import Services

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_BATCHED_SINCE = 4
_TOPICS = {_GROUP: OFFSETS_TOPIC, _TRANSACTION: TRANSACTION_TOPIC}
_ASKS = {
    _GROUP: (Operation.DESCRIBE, ResourceKind.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION: (
        Operation.DESCRIBE,
        ResourceKind.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    _SHARE: (Operation.CLUSTER_ACTION, ResourceKind.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
}
_NO_TRANSACTIONS = "Not every broker of this cluster has transactions yet."


class _Found(NamedTuple):
    error: ErrorCode
    message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1


async def handle(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    keys = [request.key] if call.api_version < _BATCHED_SINCE else request.coordinator_keys
    allowed = [key for key in keys if not _refusal(call, request.key_type, key)]
    await call.node.signs_of_life.of(_coordinators(call.node, request.key_type, allowed))  # one may just have died
    if (settled := call.node.doubts.settled()) is not None:
        await settled
    if call.api_version < _BATCHED_SINCE:
        found = await _find(call, request.key_type, request.key)
        message = found.message or (found.error.message if found.error else "NONE")  # Java's name for no error
        return FindCoordinatorResponse(
            error_code=found.error, error_message=message, node_id=found.node_id, host=found.host, port=found.port
        )
    response = FindCoordinatorResponse()
    for number, key in enumerate(request.coordinator_keys, 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        found = await _find(call, request.key_type, key)
        response.coordinators.append(
            Coordinator(
                key=key,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
                error_code=found.error,
                error_message=found.message or "",
            )
        )
    return response


def _coordinators(node: Services, key_type: int, keys: Sequence[str]) -> Iterator[BrokerId]:
    """The brokers to which the answer may send the client; all, if to find the coordinators would take long."""
    name = _TOPICS.get(key_type, "")
    topic = node.metadata.topic(name)
    if topic is None:
        return
    if len(keys) > A_TURN:
        yield from node.metadata.brokers
        return
    partition_for = node.coordinators.by_topic[name].partition_for
    for index in {partition_for(key) for key in keys}:
        if index is not None:
            yield topic.partitions[index].leader


def _refusal(call: Call, key_type: int, key: str) -> ErrorCode:
    """NONE if the caller may look for this coordinator."""
    asks = _ASKS.get(key_type)
    if asks is None:
        return ErrorCode.NONE
    operation, resource, error = asks
    name = CLUSTER_NAME if resource is ResourceKind.CLUSTER else key
    return ErrorCode.NONE if call.may(operation, resource, name) else error


async def _find(call: Call, key_type: int, key: str) -> _Found:
    node = call.node
    if refused := _refusal(call, key_type, key):
        return _Found(refused)
    name = _TOPICS.get(key_type)
    if name is None or (key_type == _TRANSACTION and not key):
        return _Found(ErrorCode.INVALID_REQUEST)
    if key_type == _TRANSACTION and not node.has_transactions:
        return _Found(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _NO_TRANSACTIONS)
    if node.metadata.topic(name) is None:
        await node.create_topic_as_configured(name)
    topic = node.metadata.topic(name)
    index = node.coordinators.by_topic[name].partition_for(key)
    if topic is None or index is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = topic.partitions[index].leader
    for node_id, host, port, _ in node.endpoints.live(call.connection):
        if node_id == leader:
            return _Found(ErrorCode.NONE, None, node_id, host, port)
    return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
