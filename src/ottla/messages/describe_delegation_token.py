"""DescribeDelegationToken, key 41: the tokens that the caller may see, with their secrets (KIP-48)."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bytes, Int16, Int32, Int64, String


@struct()
class DescribeDelegationTokenOwner:
    principal_type: str = field(String)
    principal_name: str = field(String)


@message(versions=(1, 3), flexible_since=2)
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = field(Array(DescribeDelegationTokenOwner), nullable_since=1)
    """Null: of everybody; empty: of nobody."""


@struct()
class DescribedDelegationTokenRenewer:
    principal_type: str = field(String)
    principal_name: str = field(String)


@struct()
class DescribedDelegationToken:
    principal_type: str = field(String)
    principal_name: str = field(String)
    token_requester_principal_type: str = field(String, since=3)
    token_requester_principal_name: str = field(String, since=3)
    issue_timestamp: int = field(Int64)
    expiry_timestamp: int = field(Int64)
    max_timestamp: int = field(Int64)
    token_id: str = field(String)
    hmac: bytes = field(Bytes)
    renewers: list[DescribedDelegationTokenRenewer] = field(Array(DescribedDelegationTokenRenewer))


@message(versions=(1, 3), flexible_since=2)
class DescribeDelegationTokenResponse:
    error_code: int = field(Int16)
    tokens: list[DescribedDelegationToken] = field(Array(DescribedDelegationToken))
    throttle_time_ms: int = field(Int32)


def refusal(request: DescribeDelegationTokenRequest, error: int, version: int) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=error)
