"""Logging in by SASL over a fresh connection: one story for both faces. Each step yields a request, and is sent its
answer.
"""

from __future__ import annotations

import base64
import random
import secrets
import time
from collections.abc import Generator
from typing import Any

from ottla.access.mechanisms.base import ClientSide, PeerRefused
from ottla.access.mechanisms.gssapi import GssapiClient
from ottla.access.mechanisms.oauthbearer import OauthBearerClient
from ottla.access.mechanisms.plain import NAME as PLAIN
from ottla.access.mechanisms.plain import PlainClient
from ottla.access.mechanisms.scram import ScramClient
from ottla.client.errors import BrokerUnreachable, refused
from ottla.client.oauth import Obtained, TokenUnavailable, obtained
from ottla.client.security import Security
from ottla.kernel.errors import ErrorCode
from ottla.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.messages.sasl_handshake import SaslHandshakeRequest
from ottla.tls.kerberos import KerberosFault, initiating

_NONCE_BYTES = 24
_RENEWED_AT, _SPREAD = 0.85, 0.1
"""A session is renewed at this part of its life and a random bit later, so that not all clients come at once."""
_LEAST_MS = 1100
"""A broker does not let a session be renewed within a second (KIP-368)."""


class LoginSession:
    """The time for which a login is good; a broker that says none lets it last."""

    def __init__(self, lifetime_ms: int) -> None:
        part = _RENEWED_AT + _SPREAD * random.random()
        after_ms = max(lifetime_ms * part, _LEAST_MS) if lifetime_ms > 0 else float("inf")
        self._renew_s = time.monotonic() + after_ms / 1000

    @property
    def is_ending(self) -> bool:
        """True if it is time to log in again."""
        return time.monotonic() >= self._renew_s


ENDLESS = LoginSession(0)


def shown_token(security: Security, where: str) -> Obtained | None:
    """The token to log in with, None for other mechanisms. It may have to be fetched: not for an event loop."""
    if security.tokens is None:
        return None
    try:
        return obtained(security.tokens)
    except TokenUnavailable as fault:
        if fault.passing:
            raise BrokerUnreachable(f"no token to log in at {where}: {fault}") from fault
        raise refused(ErrorCode.SASL_AUTHENTICATION_FAILED, f"no token to log in at {where}", str(fault)) from fault


def login(security: Security, where: str, token: Obtained | None) -> Generator[Any, Any, LoginSession]:
    """Prove who the client is; raises `client.errors.Refused` where the broker does not take it, or is not trusted."""
    mechanism = security.mechanism
    answer = yield SaslHandshakeRequest(mechanism=mechanism)
    if answer.error_code != ErrorCode.NONE:
        offered = ", ".join(answer.mechanisms) or "none"
        raise refused(answer.error_code, f"{where} does not take {mechanism}; it offers {offered}")
    try:
        side = _side(security, where, token)
        data: bytes | None = side.first()
    except KerberosFault as fault:
        why = f"{fault}; is there a ticket (klist), and does the broker's principal have this host?"
        raise refused(ErrorCode.SASL_AUTHENTICATION_FAILED, f"no ticket to log in at {where}", why) from fault
    while True:
        assert data is not None
        answer = yield SaslAuthenticateRequest(auth_bytes=data)
        if answer.error_code != ErrorCode.NONE:
            hint = " (its log says why)" if token is not None else ""
            raise refused(answer.error_code, f"{where} refused the login by {mechanism}{hint}", answer.error_message)
        try:
            data = side.step(bytes(answer.auth_bytes))
        except PeerRefused as fault:
            raise refused(ErrorCode.SASL_AUTHENTICATION_FAILED, f"the login at {where}", str(fault)) from fault
        if data is None:
            return LoginSession(answer.session_lifetime_ms)


def _side(security: Security, where: str, token: Obtained | None) -> ClientSide:
    if token is not None:
        try:
            return OauthBearerClient(token.token, token.extensions)
        except ValueError as fault:
            raise refused(ErrorCode.SASL_AUTHENTICATION_FAILED, f"the login at {where}", str(fault)) from None
    if security.mechanism == PLAIN:
        return PlainClient(security.user, security.password)
    if security.tickets is not None:
        one = security.tickets
        host = where.rpartition(":")[0].strip("[]")
        return GssapiClient(initiating(one.service, host, one.principal, one.keytab))
    nonce = base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode().rstrip("=")
    return ScramClient(security.mechanism, security.user, security.password, nonce, token=security.by_token)
