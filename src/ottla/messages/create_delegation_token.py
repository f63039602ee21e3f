"""CreateDelegationToken, key 38: a token by which others log in as its owner (KIP-48, KIP-373)."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bytes, Int16, Int32, Int64, String


@struct()
class CreatableRenewers:
    principal_type: str = field(String)
    principal_name: str = field(String)


@message(versions=(1, 3), flexible_since=2)
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = field(String, since=3, nullable_since=3)
    owner_principal_name: str | None = field(String, since=3, nullable_since=3)
    """Null and empty: the caller."""
    renewers: list[CreatableRenewers] = field(Array(CreatableRenewers))
    max_lifetime_ms: int = field(Int64)


@message(versions=(1, 3), flexible_since=2)
class CreateDelegationTokenResponse:
    error_code: int = field(Int16)
    principal_type: str = field(String)
    principal_name: str = field(String)
    token_requester_principal_type: str = field(String, since=3)
    token_requester_principal_name: str = field(String, since=3)
    issue_timestamp_ms: int = field(Int64)
    expiry_timestamp_ms: int = field(Int64)
    max_timestamp_ms: int = field(Int64)
    token_id: str = field(String)
    hmac: bytes = field(Bytes)
    throttle_time_ms: int = field(Int32)


def refusal(request: CreateDelegationTokenRequest, error: int, version: int) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=error, issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1
    )
