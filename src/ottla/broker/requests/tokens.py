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

if TYPE_CHECKING:
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


def parts_of(principal: str) -> tuple[str, str]:
    """The type and the name in a principal."""
    kind, _, name = principal.partition(":")
    return kind, name
