"""The delegation tokens of the metadata with their secrets, which follow from `delegation.token.secret.key` (KIP-48).

A token's HMAC is its password. Every broker has the same key and so finds the same HMAC; the metadata has none of them.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.access.mechanisms.base import SlowHash
from ottla.access.mechanisms.scram import LEAST_ITERATIONS, TokenLogin, keys_of, salted_password
from ottla.cluster.token_commands import ChangeToken
from ottla.kernel.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call
    from ottla.config.broker import BrokerConfig
    from ottla.kernel.credentials import DelegationToken, ScramKeys
    from ottla.metadata.state import Metadata

_MOST_KEPT = 10_000
USER = "User"
"""The one type of principals that own and renew tokens."""


class Tokens:
    """Finds tokens by their HMAC and for logins."""

    def __init__(self, config: BrokerConfig, metadata: Callable[[], Metadata]) -> None:
        self._key = (config.delegation_token_secret_key or "").encode()
        self.longest_ms = config.delegation_token_max_lifetime_ms
        self.period_ms = config.delegation_token_expiry_time_ms
        """The time for which a new or renewed token is good, unless a request says another."""
        self._metadata = metadata
        self._by_hmac: dict[bytes, str] = {}
        self._hmacs: dict[str, bytes] = {}
        self._keys: dict[tuple[str, str], ScramKeys] = {}

    @property
    def enabled(self) -> bool:
        return bool(self._key)

    def hmac(self, token_id: str) -> bytes:
        """The secret of a token."""
        return hmac.digest(self._key, token_id.encode(), "sha512")

    def by_hmac(self, shown: bytes) -> DelegationToken | None:
        """The token that has this secret."""
        tokens = self._metadata().tokens
        if self._hmacs.keys() != tokens.keys():
            self._hmacs = {token_id: self._hmacs.get(token_id) or self.hmac(token_id) for token_id in tokens}
            self._by_hmac = {secret: token_id for token_id, secret in self._hmacs.items()}
        found = self._by_hmac.get(shown)
        return None if found is None else tokens[found]

    def login(self, mechanism: str, token_id: str, salt: bytes) -> TokenLogin | SlowHash | None:
        """A token that somebody shows. Its keys are made at its first login on this broker."""
        token = self._metadata().tokens.get(token_id) if self.enabled else None
        if token is None:
            return None
        keys = self._keys.get((mechanism, token_id))
        if keys is None:
            return SlowHash(lambda: self._make_keys(mechanism, token_id, salt))
        return TokenLogin(keys, token.owner, token.expires_ms)

    def _make_keys(self, mechanism: str, token_id: str, salt: bytes) -> None:
        password = base64.b64encode(self.hmac(token_id)).decode()
        keys = keys_of(mechanism, salted_password(mechanism, password, salt, LEAST_ITERATIONS), salt, LEAST_ITERATIONS)
        if len(self._keys) >= _MOST_KEPT:
            self._keys.clear()
        self._keys[mechanism, token_id] = keys


async def change_token(
    call: Call, secret: bytes, until: Callable[[int], int | None], *, renews: bool
) -> tuple[ErrorCode, int]:
    """Give a token another time, as its people ask: the error, and when it expires now (-1 with an error).

    `until` makes the asked time of the present one, in milliseconds; None ends the token at once.
    """
    tokens = call.node.tokens
    if not call.may_ask_for_tokens:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1
    if not tokens.enabled:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, -1
    token = tokens.by_hmac(secret)
    if token is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1
    now_ms = call.node.clock.wall_ms()
    until_ms = until(now_ms)
    change = ChangeToken(token.token_id, call.principal, now_ms, until_ms, renews=renews)
    outcome = await call.node.follow.submit(change)
    if isinstance(outcome, ApiError):
        return outcome.code, -1
    return ErrorCode.NONE, now_ms if until_ms is None else min(until_ms, token.max_ms)


def parts_of(principal: str) -> tuple[str, str]:
    """The type and the name in a principal."""
    kind, _, name = principal.partition(":")
    return kind, name
