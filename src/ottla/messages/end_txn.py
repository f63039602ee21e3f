"""EndTxn, key 26: commit or abort a transaction."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Bool, Int16, Int32, Int64, String


@message(versions=(0, 5), flexible_since=3)
class EndTxnRequest:
    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    committed: bool = field(Bool)


@message(versions=(0, 5), flexible_since=3)
class EndTxnResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    producer_id: int = field(Int64, since=5, default=-1)
    producer_epoch: int = field(Int16, since=5, default=-1)


def refusal(request: EndTxnRequest, error: int, version: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=error)
