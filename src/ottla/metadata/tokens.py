"""Delegation tokens as entries, and back."""

from __future__ import annotations

from ottla.kernel.credentials import DelegationToken
from ottla.metadata.entries import DelegationTokenSet


def token_of(body: DelegationTokenSet) -> DelegationToken:
    """The token in an entry."""
    return DelegationToken(
        body.token_id,
        body.owner,
        body.requester,
        tuple(body.renewers),
        body.issued_ms,
        body.expires_ms,
        body.max_ms,
    )


def token_set(token: DelegationToken) -> DelegationTokenSet:
    """The entry of a token."""
    return DelegationTokenSet(**token._replace(renewers=())._asdict() | {"renewers": list(token.renewers)})
