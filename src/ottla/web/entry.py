"""The way into a server of HTTP: its context of TLS from `ssl.*` options; passwords (RFC 7617), tokens (RFC 6750)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from ottla.tls.contexts import TlsContext, following_context
from ottla.tls.settings import tls_settings
from ottla.web.exchange import Handler, HttpError, Request, Response

log = logging.getLogger("ottla.web")


def https_context(texts: Mapping[str, str], prefix: str = "listeners.https.") -> TlsContext:
    """The context of `ssl.*` options; those that begin with `prefix` come first. ValueError says what is wrong.

    New connections have files that have changed.
    """
    shared = {name: text for name, text in texts.items() if name.startswith("ssl.")}
    own = {name.removeprefix(prefix): text for name, text in texts.items() if name.startswith(prefix + "ssl.")}
    settings, problems = tls_settings({**shared, **own})
    if problems:
        raise ValueError("; ".join(problems))
    return following_context(settings, lambda why: log.warning("https: %s", why))


class KnownUsers(Protocol):
    """The users who may come in: `config.passwords.UsersFile`."""

    def knows(self, user: str, password: str) -> bool:
        """True if this is the user's password."""


class TokenRefused(Exception):
    """A token that is not good; the message is for the log."""


class TokenOwners(Protocol):
    """Those whose tokens are taken: `jobs.caller_tokens.CallerTokens`."""

    def owner(self, token: str) -> str:
        """The user whose token this is, or TokenRefused. May wait, so it is called in a thread."""


class Asked:
    """A handler that refuses by 401 requests of nobody; `user` names the others to the handler behind.

    Users show a password by Basic, where there are `users`, or a Bearer token, where there are `tokens`.
    """

    def __init__(
        self, handler: Handler, users: KnownUsers | None, realm: str, tokens: TokenOwners | None = None
    ) -> None:
        self._handler = handler
        self._users = users
        self._tokens = tokens
        self._realm = realm
        wanted = ("a user and a password", users), ("a token", tokens)
        self._advice = (
            f"HTTP 401 Unauthorized: give {' or '.join([what for what, known in wanted if known is not None])}"
        )

    async def __call__(self, request: Request) -> Response:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._tokens is not None:
            user = await self._owner(self._tokens, request, given.strip())
        else:
            user = self._known(request, _credentials(given) if scheme.lower() == "basic" else None)
        return await self._handler(replace(request, user=user))

    def _known(self, request: Request, given: tuple[str, str] | None) -> str:
        if given is not None and self._users is not None and self._users.knows(*given):
            return given[0]
        if given is not None:
            log.warning("%s: login refused: no user %.100r with that password", request.client, given[0])
        raise HttpError(401, self._advice, headers=self._challenges())

    async def _owner(self, tokens: TokenOwners, request: Request, token: str) -> str:
        try:
            return await asyncio.to_thread(tokens.owner, token)
        except TokenRefused as fault:
            log.warning("%s: login refused: the token is not taken: %s", request.client, fault)
        challenges = self._challenges(', error="invalid_token"')
        raise HttpError(401, "HTTP 401 Unauthorized: the token is not taken", headers=challenges)

    def _challenges(self, about_token: str = "") -> tuple[tuple[str, str], ...]:
        """The headers that say what is taken here, and what is wrong with a token."""
        basic = "" if self._users is None else f'Basic realm="{self._realm}", charset="UTF-8"'
        bearer = "" if self._tokens is None else f'Bearer realm="{self._realm}"{about_token}'
        return tuple(("WWW-Authenticate", challenge) for challenge in (basic, bearer) if challenge)


def _credentials(token: str) -> tuple[str, str] | None:
    """The user and the password that Basic has packed."""
    try:
        user, colon, password = base64.b64decode(token.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon else None
