"""Credentials in requests to a server of HTTP: a password by Basic (RFC 7617), or a Bearer token (RFC 6750)."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from ottla.config.listeners import is_loopback

REFUSED = frozenset({401, 403})
"""The statuses by which a server refuses a caller: it does not know who that is, or the caller lacks a right."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class NoCredential(Exception):
    """The caller has none to show: the login is over, or HTTP cannot write it."""


def basic(user: str, password: str) -> str:
    """The header Authorization of a user with a password; NoCredential for a name that would be read as another."""
    if ":" in user:
        raise NoCredential("a user whose name has a colon cannot log in over HTTP (RFC 7617)")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def bearer(token: str) -> str:
    """The header Authorization of the owner of a token; NoCredential for a text that is none."""
    if not _TOKEN.fullmatch(token):
        raise NoCredential("the token has signs that no token has in HTTP (RFC 6750)")
    return f"Bearer {token}"


def is_private(url: str) -> bool:
    """True if nobody on the way can read what goes to a URL: by https, or to this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """The credential that a caller shows the servers which it asks. It cannot be printed: it leads to a secret."""

    user: str
    """As a refusal names the caller: User:anna."""
    what: str
    """The credential in a word: password, token."""
    authorization: Callable[[], str] | None
    """Makes the header Authorization of a request; it may wait, and raise NoCredential. None: nothing is shown."""
    in_the_clear: bool = False
    """True if it goes to other machines by plain http, too, where everybody on the way can read it."""
    advice: str = ""
    """The thing to do about a server that asks who calls and is shown nothing."""

    def goes_to(self, url: str) -> bool:
        """True if a server is shown the credential."""
        return self.authorization is not None and (self.in_the_clear or is_private(url))

    def headers(self, url: str) -> dict[str, str]:
        """The headers of a request to a server; NoCredential where the caller has none to show any more."""
        if self.authorization is None or not self.goes_to(url):
            return {}
        return {"Authorization": self.authorization()}

    def refusal(self, server: str, url: str, status: int, told: str) -> str:
        """The sentence about an answer by 401 or 403; `server` names the server, `told` is what it said."""
        if not self.goes_to(url):
            return f"{server} at {url} answers {status} ({told}): {self.advice}"
        if status == 401:
            return f"{server} at {url} does not take the {self.what} of {self.user}: {told}"
        return f"{server} at {url} does not let {self.user} do this: {told}"


def credential_of_environment(user: str, password: str, token: str) -> Credential:
    """The caller whom the environment names by these variables; nobody's credential where it names none."""
    if bears := os.environ.get(token):
        return Credential(f"the owner of {token}", "token", lambda: bearer(bears), in_the_clear=True)
    if name := os.environ.get(user):
        secret = os.environ.get(password, "")
        return Credential(f"User:{name}", "password", lambda: basic(name, secret), in_the_clear=True)
    return Credential("nobody", "password", None)
