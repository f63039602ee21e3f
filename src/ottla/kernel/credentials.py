"""The keys that are kept in place of a password."""

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
