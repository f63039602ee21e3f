"""DescribeDelegationToken (key 41, versions 1 to 3): the tokens that the caller may see (KIP-48, KIP-373)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.tokens import parts_of
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call
    from ottla.kernel.credentials import DelegationToken


async def handle(call: Call, request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    tokens = call.node.tokens
    if not call.may_ask_for_tokens:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not tokens.enabled:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    asked = None
    if request.owners is not None:
        asked = [f"{each.principal_type}:{each.principal_name}" for each in request.owners]
    known = sorted(call.node.metadata.tokens.items())
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, tokens.hmac(token_id))
            for token_id, token in known
            if (asked is None or any(map(token.is_of, asked))) and _sees(call, token)
        ]
    )


def _sees(call: Call, token: DelegationToken) -> bool:
    """True for the token's own people, and for those with a right to the token or to its owner's tokens."""
    return (
        token.is_of(call.principal)
        or call.may(Operation.DESCRIBE, ResourceKind.DELEGATION_TOKEN, token.token_id, told=False)
        or call.may(Operation.DESCRIBE_TOKENS, ResourceKind.USER, token.owner, told=False)
    )


def _described(token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    kind, name = parts_of(token.owner)
    asking_kind, asking_name = parts_of(token.requester)
    return DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=asking_kind,
        token_requester_principal_name=asking_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each[0], principal_name=each[1])
            for each in map(parts_of, token.renewers)
        ],
    )
