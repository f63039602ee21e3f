"""Delegation tokens as stories: make, renew, expire and describe them (KIP-48, KIP-373)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import refused
from ottla.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

_USER = "User"


class Token(NamedTuple):
    """A delegation token. By its id and its secret others log in as the owner, with SCRAM and `tokenauth=true`."""

    token_id: str
    hmac: bytes
    owner: str
    """The name of a user; of the requester and the renewers, too."""
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """The last time to which it can be renewed."""

    @property
    def secret(self) -> str:
        """The password that goes with the id."""
        return base64.b64encode(self.hmac).decode()

    def __repr__(self) -> str:
        return f"Token({self.token_id!r}, owner={self.owner!r}, expires_ms={self.expires_ms})"


async def create_token(
    plan: ClusterPlan, owner: str | None = None, renewers: Sequence[str] = (), max_life_ms: int | None = None
) -> Token:
    """A new token of the caller, or of another user for whom the caller may make them."""
    request = CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else _USER,
        owner_principal_name=owner,
        renewers=[CreatableRenewers(principal_type=_USER, principal_name=each) for each in renewers],
        max_lifetime_ms=-1 if max_life_ms is None else max_life_ms,
    )
    made = await plan.ask_any(CreateDelegationTokenRequest, CreateDelegationTokenResponse, lambda _: request)
    _check(made, "a delegation token")
    return Token(
        made.token_id,
        bytes(made.hmac),
        made.principal_name,
        made.token_requester_principal_name or made.principal_name,
        tuple(renewers),
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )


async def describe_tokens(plan: ClusterPlan, owners: Sequence[str] | None = None) -> list[Token]:
    """The tokens that the caller may see, by id; `owners` leaves those that concern one of these users."""
    asked = None
    if owners is not None:
        asked = [DescribeDelegationTokenOwner(principal_type=_USER, principal_name=each) for each in owners]
    response = await plan.ask_any(
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
        lambda _: DescribeDelegationTokenRequest(owners=asked),
    )
    _check(response, "delegation tokens")
    return [
        Token(
            each.token_id,
            bytes(each.hmac),
            each.principal_name,
            each.token_requester_principal_name or each.principal_name,
            tuple(renewer.principal_name for renewer in each.renewers),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in sorted(response.tokens, key=lambda each: each.token_id)
    ]


async def renew_token(plan: ClusterPlan, hmac: bytes, period_ms: int | None = None) -> int:
    """Let a token be good for a period from now on, or for the brokers' default; the time at which it will expire."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1 if period_ms is None else period_ms)
    response = await plan.ask_any(RenewDelegationTokenRequest, RenewDelegationTokenResponse, lambda _: request)
    _check(response, "the delegation token")
    return int(response.expiry_timestamp_ms)


async def expire_token(plan: ClusterPlan, hmac: bytes, period_ms: int | None = None) -> int:
    """Let a token expire after a period, or at once; the time at which it does. Open connections go on until then."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1 if period_ms is None else period_ms)
    response = await plan.ask_any(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, lambda _: request)
    _check(response, "the delegation token")
    return int(response.expiry_timestamp_ms)


def _check(response: Any, subject: str) -> None:
    if response.error_code:
        raise refused(response.error_code, subject)
