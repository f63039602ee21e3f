"""DescribeTransactions, key 65: the state of transactions, by transactional id."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, Int64, String


@message(versions=(0, 0), flexible_since=0)
class DescribeTransactionsRequest:
    transactional_ids: list[str] = field(Array(String))


@struct()
class TopicData:
    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct()
class TransactionState:
    error_code: int = field(Int16)
    transactional_id: str = field(String)
    transaction_state: str = field(String)
    transaction_timeout_ms: int = field(Int32)
    transaction_start_time_ms: int = field(Int64)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    topics: list[TopicData] = field(Array(TopicData))


@message(versions=(0, 0), flexible_since=0)
class DescribeTransactionsResponse:
    throttle_time_ms: int = field(Int32)
    transaction_states: list[TransactionState] = field(Array(TransactionState))


def refusal(request: DescribeTransactionsRequest, error: int, version: int) -> DescribeTransactionsResponse | None:
    states = [
        TransactionState(transactional_id=transactional_id, error_code=error)
        for transactional_id in request.transactional_ids
    ]
    return DescribeTransactionsResponse(transaction_states=states) if states else None
