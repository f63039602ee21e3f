"""Credentials that the cluster keeps: keys in place of a password, and delegation tokens without their secret."""

from __future__ import annotations

from typing import NamedTuple


class ScramKeys(NamedTuple):
    """The salt and the keys of a user's password, for one mechanism (RFC 5802): enough to check a login by."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramKeys(iterations={self.iterations})"  # the rest is as good as a password to guess from


class DelegationToken(NamedTuple):
    """A token by which others log in as its owner, for a while (KIP-48). Its secret follows from the brokers' key.

    The owner, the requester and the renewers are principals, as `User:alice`.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    """The wall time in milliseconds after which nobody logs in by it; renewing moves it."""
    max_ms: int
    """The last time to which it can be renewed."""

    def is_of(self, principal: str) -> bool:
        """True for those who may renew and expire the token, and see it without a further right."""
        return principal in (self.owner, self.requester, *self.renewers)

    def has_expired(self, now_ms: int) -> bool:
        return self.expires_ms < now_ms
