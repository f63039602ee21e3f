"""ExpireDelegationToken, key 40: a token is good for a shorter time, or no more (KIP-48)."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Bytes, Int16, Int32, Int64


@message(versions=(1, 2), flexible_since=2)
class ExpireDelegationTokenRequest:
    hmac: bytes = field(Bytes)
    expiry_time_period_ms: int = field(Int64)


@message(versions=(1, 2), flexible_since=2)
class ExpireDelegationTokenResponse:
    error_code: int = field(Int16)
    expiry_timestamp_ms: int = field(Int64)
    throttle_time_ms: int = field(Int32)


def refusal(request: ExpireDelegationTokenRequest, error: int, version: int) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)
