"""ListTransactions (key 66): the transactions that this broker coordinates.

A pattern of transactional ids is refused as Apache Kafka refuses one that its engine cannot read: there is no engine
here that takes time in proportion to the text alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.transactions.values import State

if TYPE_CHECKING:
    from ottla.broker.dispatch import Call

_LABELS = frozenset(state.label for state in State)


async def handle(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    transactions = call.node.transactions
    if request.transactional_id_pattern:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    if transactions.loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    response = ListTransactionsResponse()
    response.unknown_state_filters = [name for name in request.state_filters if name not in _LABELS]
    known = [name for name in request.state_filters if name in _LABELS]
    if request.state_filters and not known:
        return response
    request.state_filters = known
    for slot in transactions.ask_all(
        lambda shard, ticket, now: shard.list_transactions(request, lambda _: True, ticket, now)
    ):
        answer = await slot
        if not isinstance(answer, ErrorCode):
            response.transaction_states += answer
    return response
