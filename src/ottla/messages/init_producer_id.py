"""InitProducerId, key 22: give an idempotent or transactional producer its id and epoch."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Bool, Int16, Int32, Int64, String


@message(versions=(0, 6), flexible_since=2)
class InitProducerIdRequest:
    transactional_id: str | None = field(String, nullable_since=0)
    transaction_timeout_ms: int = field(Int32)
    producer_id: int = field(Int64, since=3, default=-1)
    producer_epoch: int = field(Int16, since=3, default=-1)
    enable2_pc: bool = field(Bool, since=6)
    keep_prepared_txn: bool = field(Bool, since=6)


@message(versions=(0, 6), flexible_since=2)
class InitProducerIdResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    producer_id: int = field(Int64, default=-1)
    producer_epoch: int = field(Int16)
    ongoing_txn_producer_id: int = field(Int64, since=6, default=-1)
    ongoing_txn_producer_epoch: int = field(Int16, since=6, default=-1)


def refusal(request: InitProducerIdRequest, error: int, version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error)
