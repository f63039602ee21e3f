"""ExpireDelegationToken (key 40, versions 1 and 2): a token is good until another time, or no more (KIP-48)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.token_commands import ChangeToken
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    tokens = call.node.tokens
    if not call.may_ask_for_tokens:
        return _refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not tokens.enabled:
        return _refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token = tokens.by_hmac(bytes(request.hmac))
    if token is None:
        return _refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    now_ms = call.node.clock.wall_ms()
    until_ms = now_ms + request.expiry_time_period_ms if request.expiry_time_period_ms >= 0 else None
    outcome = await call.node.follow.submit(ChangeToken(token.token_id, call.principal, now_ms, until_ms, renews=False))
    if isinstance(outcome, ApiError):
        return _refused(outcome.code)
    expires_ms = now_ms if until_ms is None else min(until_ms, token.max_ms)
    return ExpireDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=expires_ms)


def _refused(error: ErrorCode) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)
