"""ListTransactions, key 66: the transactions that a broker coordinates."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, Int64, String


@message(versions=(0, 2), flexible_since=0)
class ListTransactionsRequest:
    state_filters: list[str] = field(Array(String))
    producer_id_filters: list[int] = field(Array(Int64))
    duration_filter: int = field(Int64, since=1, default=-1)
    transactional_id_pattern: str | None = field(String, since=2, nullable_since=2, default=None)


@struct()
class TransactionState:
    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    transaction_state: str = field(String)


@message(versions=(0, 2), flexible_since=0)
class ListTransactionsResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    unknown_state_filters: list[str] = field(Array(String))
    transaction_states: list[TransactionState] = field(Array(TransactionState))


def refusal(request: ListTransactionsRequest, error: int, version: int) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error)
