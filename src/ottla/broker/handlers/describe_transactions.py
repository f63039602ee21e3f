"""DescribeTransactions (key 65, version 0): the state of transactions by their id, each from its shard (KIP-664).

An id that is named several times is answered once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.waiting import A_TURN, next_turn
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.kernel.shards import Moment, Ticket
from ottla.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.transactions.shard import TransactionShard
from ottla.transactions.values import TransactionDecision

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    response = DescribeTransactionsResponse()
    for number, transactional_id in enumerate(dict.fromkeys(request.transactional_ids), 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        answer: TransactionState | ErrorCode = ErrorCode.INVALID_REQUEST
        if transactional_id:
            answer = await call.node.transactions.ask(transactional_id, partial(_describe, transactional_id))
        if not isinstance(answer, ErrorCode):
            answer.topics = [
                topic
                for topic in answer.topics
                if call.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.topic, told=False)
            ]
        if isinstance(answer, ErrorCode):
            answer = TransactionState(transactional_id=transactional_id, error_code=answer)
        response.transaction_states.append(answer)
    return response


def _describe(transactional_id: str, shard: TransactionShard, ticket: Ticket, now: Moment) -> TransactionDecision:
    return shard.describe(transactional_id, ticket)
