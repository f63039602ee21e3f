"""The way into a server of HTTP: its context of TLS from `ssl.*` options, and passwords by HTTP's Basic (RFC 7617)."""

from __future__ import annotations

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


class Asked:
    """A handler that refuses by 401 requests without the password of a user; `user` names it to the handler behind."""

    def __init__(self, handler: Handler, users: KnownUsers, realm: str) -> None:
        self._handler = handler
        self._users = users
        self._challenge = ("WWW-Authenticate", f'Basic realm="{realm}", charset="UTF-8"')

    async def __call__(self, request: Request) -> Response:
        given = _credentials(request.headers.get("authorization", ""))
        if given is None or not self._users.knows(*given):
            if given is not None:
                log.warning("%s: login refused: no user %.100r with that password", request.client, given[0])
            raise HttpError(401, "HTTP 401 Unauthorized: give a user and a password", headers=(self._challenge,))
        return await self._handler(replace(request, user=given[0]))


def _credentials(header: str) -> tuple[str, str] | None:
    """The user and the password of an Authorization header."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(token.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon else None
