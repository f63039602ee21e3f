"""CreateDelegationToken (key 38, versions 1 to 3): a token for the caller, or for a user that it may act for (KIP-373).

Owners are users: another type of principal is refused with 67, where Apache Kafka takes it.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from ottla.broker.requests.tokens import USER, parts_of
from ottla.cluster.token_commands import CreateToken
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.credentials import DelegationToken
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    tokens = call.node.tokens
    if not call.may_ask_for_tokens:
        return _refused(call, call.principal, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    owner = call.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
    if owner != call.principal and not call.may(Operation.CREATE_TOKENS, ResourceKind.USER, owner):
        return _refused(call, owner, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if parts_of(owner)[0] != USER or any(each.principal_type != USER for each in request.renewers):
        return _refused(call, owner, ErrorCode.INVALID_PRINCIPAL_TYPE)
    if not tokens.enabled:
        return _refused(call, owner, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    now_ms = call.node.clock.wall_ms()
    longest_ms = tokens.longest_ms
    if request.max_lifetime_ms > 0:
        longest_ms = min(request.max_lifetime_ms, longest_ms)
    token = DelegationToken(
        str(uuid.UUID(bytes=call.node.entropy.bytes(16), version=4)),
        owner,
        call.principal,
        tuple(dict.fromkeys(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)),
        now_ms,
        now_ms + min(longest_ms, tokens.period_ms),
        now_ms + longest_ms,
    )
    outcome = await call.node.follow.submit(CreateToken(token))
    if isinstance(outcome, ApiError):
        return _refused(call, owner, outcome.code)
    made = _refused(call, owner, ErrorCode.NONE)
    made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms = now_ms, token.expires_ms, token.max_ms
    made.token_id, made.hmac = token.token_id, tokens.hmac(token.token_id)
    return made


def _refused(call: Call, owner: str, error: ErrorCode) -> CreateDelegationTokenResponse:
    """An answer with the owner and the requester alone."""
    kind, name = parts_of(owner)
    asking_kind, asking_name = parts_of(call.principal)
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=asking_kind,
        token_requester_principal_name=asking_name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
