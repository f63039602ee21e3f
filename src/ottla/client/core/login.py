"""Logging in by SASL over a fresh connection: one story for both faces. Each step yields a request, and is sent its
answer.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Generator
from typing import Any

from ottla.access.mechanisms.base import ClientSide, PeerRefused
from ottla.access.mechanisms.plain import NAME as PLAIN
from ottla.access.mechanisms.plain import PlainClient
from ottla.access.mechanisms.scram import ScramClient
from ottla.client.errors import refused
from ottla.client.security import Security
from ottla.kernel.errors import ErrorCode
from ottla.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.messages.sasl_handshake import SaslHandshakeRequest

_NONCE_BYTES = 24


def login(security: Security, where: str) -> Generator[Any, Any, None]:
    """Prove who the client is; raises `client.errors.Refused` where the broker does not take it, or is not trusted."""
    mechanism = security.mechanism
    answer = yield SaslHandshakeRequest(mechanism=mechanism)
    if answer.error_code != ErrorCode.NONE:
        offered = ", ".join(answer.mechanisms) or "none"
        raise refused(answer.error_code, f"{where} does not take {mechanism}; it offers {offered}")
    side, data = _side(security), None
    while True:
        data = side.first() if data is None else data
        answer = yield SaslAuthenticateRequest(auth_bytes=data)
        if answer.error_code != ErrorCode.NONE:
            raise refused(answer.error_code, f"{where} refused the login by {mechanism}", answer.error_message)
        try:
            data = side.step(bytes(answer.auth_bytes))
        except PeerRefused as fault:
            raise refused(ErrorCode.SASL_AUTHENTICATION_FAILED, f"the login at {where}", str(fault)) from fault
        if data is None:
            return


def _side(security: Security) -> ClientSide:
    if security.mechanism == PLAIN:
        return PlainClient(security.user, security.password)
    nonce = base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode().rstrip("=")
    return ScramClient(security.mechanism, security.user, security.password, nonce, token=security.by_token)
