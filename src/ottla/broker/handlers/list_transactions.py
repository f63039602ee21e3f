"""ListTransactions (key 66, versions 0 to 2): the transactions that this broker coordinates (KIP-664).

Filtered by duration from version 1 on (KIP-994), by a pattern of ids from version 2 on (KIP-1152).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.kernel.patterns import BadPattern, compile_pattern
from ottla.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.transactions.values import TransactionState

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_LABELS = frozenset(state.label for state in TransactionState)


async def handle(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    transactions = call.node.transactions
    try:
        matches = compile_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else _any
    except BadPattern:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    if transactions.loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    response = ListTransactionsResponse()
    response.unknown_state_filters = [name for name in request.state_filters if name not in _LABELS]
    known = [name for name in request.state_filters if name in _LABELS]
    if request.state_filters and not known:
        return response
    request.state_filters = known
    answers = await transactions.ask_all(
        lambda shard, ticket, now: shard.list_transactions(request, matches, ticket, now)
    )
    for answer in answers:
        if not isinstance(answer, ErrorCode):
            response.transaction_states += [
                each
                for each in answer
                if call.may(Operation.DESCRIBE, ResourceKind.TRANSACTIONAL_ID, each.transactional_id)
            ]
    return response


def _any(transactional_id: str) -> bool:
    return True
