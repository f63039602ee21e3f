"""SaslAuthenticate, key 36: one step of a proof; what is in the bytes is the mechanism's own."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Bytes, Int16, Int64, String


@message(versions=(0, 2), flexible_since=2)
class SaslAuthenticateRequest:
    auth_bytes: bytes = field(Bytes)


@message(versions=(0, 2), flexible_since=2)
class SaslAuthenticateResponse:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    auth_bytes: bytes = field(Bytes)
    session_lifetime_ms: int = field(Int64, since=1)


def refusal(request: SaslAuthenticateRequest, error: int, version: int) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error)
