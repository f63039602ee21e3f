"""RenewDelegationToken and ExpireDelegationToken: the story of both, which differ in the time that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cluster.token_commands import ChangeToken
from ottla.kernel.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def change_token(
    call: Call, secret: bytes, until: Callable[[int], int | None], *, renews: bool
) -> tuple[ErrorCode, int]:
    """Give a token another time, as its people ask: the error, and when it expires now (-1 with an error).

    `until` makes the asked time of the present one, in milliseconds; None ends the token at once.
    """
    tokens = call.node.tokens
    if not call.may_ask_for_tokens:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1
    if not tokens.enabled:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, -1
    token = tokens.by_hmac(secret)
    if token is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1
    now_ms = call.node.clock.wall_ms()
    until_ms = until(now_ms)
    change = ChangeToken(token.token_id, call.principal, now_ms, until_ms, renews=renews)
    outcome = await call.node.follow.submit(change)
    if isinstance(outcome, ApiError):
        return outcome.code, -1
    return ErrorCode.NONE, now_ms if until_ms is None else min(until_ms, token.max_ms)
