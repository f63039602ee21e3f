"""PLAIN (RFC 4616): a user and a password in one message. Only for connections that are encrypted."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from ottla.access.mechanisms.base import PeerRefused, Proved

NAME = "PLAIN"


class PlainServer:
    """`passwords` holds each user's."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, data: bytes) -> Proved:
        try:
            parts = data.decode("utf-8").split("\0")
        except UnicodeDecodeError:
            raise PeerRefused("PLAIN: not UTF-8", told="Invalid SASL/PLAIN response: not UTF-8") from None
        if len(parts) != 3:
            told = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise PeerRefused(told, told=told)
        authorized, user, password = parts
        for what, given in (("username", user), ("password", password)):
            if not given:
                told = f"Authentication failed: {what} not specified"
                raise PeerRefused(told, told=told)
        if authorized and authorized != user:
            told = "Authentication failed: Client requested an authorization id that is different from username"
            raise PeerRefused(told, told=told)
        known = self._passwords.get(user)
        same = hmac.compare_digest((known or "").encode(), password.encode())
        if known is None or not same:
            raise PeerRefused(f"PLAIN: no user {user!r} with that password", told="Invalid username or password")
        return Proved(f"User:{user}")


class PlainClient:
    """The client's side; ValueError for a user or password that PLAIN has no place for."""

    def __init__(self, user: str, password: str) -> None:
        if not user or not password or "\0" in user + password:
            raise ValueError("PLAIN needs a user and a password, both without NUL characters")
        self._message = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def step(self, data: bytes) -> bytes | None:
        if data:
            raise PeerRefused(f"PLAIN: the broker answered {len(data)} bytes where nothing is due")
        return None
