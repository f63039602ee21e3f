"""ExpireDelegationToken (key 40, versions 1 and 2): a token is good until another time, or no more (KIP-48)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.token_changes import change_token
from ottla.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    period_ms = request.expiry_time_period_ms
    error, expires_ms = await change_token(
        call, bytes(request.hmac), lambda now_ms: now_ms + period_ms if period_ms >= 0 else None, renews=False
    )
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms)
