"""RenewDelegationToken (key 39, versions 1 and 2): a token is good for longer, at most until its last time (KIP-48)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.token_commands import ChangeToken
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    tokens = call.node.tokens
    if not call.may_ask_for_tokens:
        return _refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not tokens.enabled:
        return _refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token = tokens.by_hmac(bytes(request.hmac))
    if token is None:
        return _refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    now_ms = call.node.clock.wall_ms()
    until_ms = now_ms + (request.renew_period_ms if request.renew_period_ms > 0 else tokens.period_ms)
    outcome = await call.node.follow.submit(ChangeToken(token.token_id, call.principal, now_ms, until_ms, renews=True))
    if isinstance(outcome, ApiError):
        return _refused(outcome.code)
    expires_ms = min(until_ms, token.max_ms)
    return RenewDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=expires_ms)


def _refused(error: ErrorCode) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)
