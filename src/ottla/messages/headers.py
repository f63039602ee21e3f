"""The headers of requests and responses. In every version the client id keeps its two-byte length."""

from __future__ import annotations

from ottla.schema.message import field, message
from ottla.schema.types import Int16, Int32, String


@message(versions=(1, 2), flexible_since=2)
class RequestHeader:
    request_api_key: int = field(Int16)
    request_api_version: int = field(Int16)
    correlation_id: int = field(Int32)
    client_id: str | None = field(String, nullable_since=0, flexible=False)


@message(versions=(0, 1), flexible_since=1)
class ResponseHeader:
    correlation_id: int = field(Int32)
