"""AddOffsetsToTxn, key 25: add to a transaction the partition in which a group's offsets lie."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Int16, Int32, Int64, String


@message(versions=(0, 4), flexible_since=3)
class AddOffsetsToTxnRequest:
    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    group_id: str = field(String)


@message(versions=(0, 4), flexible_since=3)
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)


def refusal(request: AddOffsetsToTxnRequest, error: int, version: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error)
