"""SaslHandshake, key 17: the mechanism by which whoever connected will prove who they are."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Array, Int16, String


@message(versions=(0, 1), flexible_since=None)
class SaslHandshakeRequest:
    mechanism: str = field(String)


@message(versions=(0, 1), flexible_since=None)
class SaslHandshakeResponse:
    error_code: int = field(Int16)
    mechanisms: list[str] = field(Array(String))


def refusal(request: SaslHandshakeRequest, error: int, version: int) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=error)
