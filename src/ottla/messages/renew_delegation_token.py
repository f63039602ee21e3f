"""RenewDelegationToken, key 39: a token is good for longer (KIP-48)."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Bytes, Int16, Int32, Int64


@message(versions=(1, 2), flexible_since=2)
class RenewDelegationTokenRequest:
    hmac: bytes = field(Bytes)
    renew_period_ms: int = field(Int64)


@message(versions=(1, 2), flexible_since=2)
class RenewDelegationTokenResponse:
    error_code: int = field(Int16)
    expiry_timestamp_ms: int = field(Int64)
    throttle_time_ms: int = field(Int32)


def refusal(request: RenewDelegationTokenRequest, error: int, version: int) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)
