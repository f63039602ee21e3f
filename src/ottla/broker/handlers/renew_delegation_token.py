"""RenewDelegationToken (key 39, versions 1 and 2): a token is good for longer, at most until its last time (KIP-48)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.token_changes import change_token
from ottla.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    period_ms = request.renew_period_ms if request.renew_period_ms > 0 else call.node.tokens.period_ms
    error, expires_ms = await change_token(call, bytes(request.hmac), lambda now_ms: now_ms + period_ms, renews=True)
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms)
