"""OAUTHBEARER (RFC 7628) as Kafka speaks it (KIP-255): a token of an identity provider in one message.

Whether a token is good is another room's to say (`access/bearer_tokens.py`): this one knows the messages alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.access.mechanisms.base import PeerRefused, Proved, SlowHash

NAME = "OAUTHBEARER"
MOST_TOKEN_BYTES = 64 * 1024
"""A longer token is not looked at. Those of identity providers have some thousand bytes."""
_SEPARATOR = "\x01"
_AUTHORIZATION = re.compile(r"bearer +([-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_GS2 = re.compile(r"n,(?:a=((?:[^=,\x00\x01]|=2C|=3D)+))?,")
_INVALID = '{"status":"invalid_token"}'
"""The answer to a token that is not taken: it says nothing of the reason."""


class Bearer(NamedTuple):
    """The owner of a token that was found good."""

    name: str
    """Without `User:`."""
    expires_ms: int


class NotTaken(NamedTuple):
    """A token that is not good; `why` is for the broker's log."""

    why: str


Judge = Callable[[str], Bearer | NotTaken]
"""Looks at a token; may take long, for keys may have to be fetched."""


class OauthBearerServer:
    """The broker's side. `judge` is called off the loop; a token that it does not take ends the exchange."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._judged: Bearer | NotTaken | None = None
        self._refused = ""
        """The reason, once the token was not taken: the client was told, and must now end the exchange."""

    def step(self, data: bytes) -> bytes | Proved | SlowHash:
        if self._refused:
            raise PeerRefused(f"{NAME}: {self._refused}", told=_INVALID)
        authorized, token = _parse(data)
        if self._judged is None:
            return SlowHash(lambda: self._look(token))
        if isinstance(self._judged, NotTaken):
            self._refused = self._judged.why
            return _INVALID.encode()
        name = self._judged.name
        if authorized not in ("", name):
            told = "Authentication failed: Client requested an authorization id that is different from the token's name"
            raise PeerRefused(f"{NAME}: {name} asks to be {authorized!r}", told=told)
        return Proved(f"User:{name}", expires_ms=self._judged.expires_ms)

    def _look(self, token: str) -> None:
        self._judged = self._judge(token)


class OauthBearerClient:
    """The client's side; ValueError for a token or an extension that the mechanism has no place for."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if _AUTHORIZATION.fullmatch(f"Bearer {token}") is None:
            raise ValueError("the token has characters that no token for OAUTHBEARER has")
        for key, value in (extensions or {}).items():
            if key == "auth" or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise ValueError(f"{NAME}: extension {key!r} must have a name of letters, and a value in ASCII")
        suffix = "".join(f"{key}={value}{_SEPARATOR}" for key, value in (extensions or {}).items())
        self._message = f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{suffix}{_SEPARATOR}".encode()
        self._refused = ""

    def first(self) -> bytes:
        return self._message

    def step(self, data: bytes) -> bytes | None:
        """None for a token that was taken; else the byte that ends the exchange, to which the broker's error comes."""
        if not data:
            return None
        if self._refused:
            raise PeerRefused(f"{NAME}: the broker goes on after it refused the token: {self._refused}")
        try:
            verdict = json.loads(data)
            self._refused = str(verdict["status"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise PeerRefused(f"{NAME}: the broker's answer is none of the mechanism") from None
        return _SEPARATOR.encode()


def _parse(data: bytes) -> tuple[str, str]:
    """The name that is asked for (empty: the token's own) and the token, of the client's first message."""
    if len(data) > MOST_TOKEN_BYTES:
        raise _malformed(f"{len(data)} bytes, and {MOST_TOKEN_BYTES} are the most")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("not UTF-8") from None
    head, *pairs = text.split(_SEPARATOR)
    gs2 = _GS2.fullmatch(head)
    if gs2 is None or len(pairs) < 3 or pairs[-2:] != ["", ""]:
        raise _malformed("not in the form of RFC 7628")
    found: dict[str, str] = {}
    for pair in pairs[:-2]:
        key, equals, value = pair.partition("=")
        if not equals or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value) or key in found:
            raise _malformed("a pair of it is no key=value, or comes twice")
        found[key] = value
    shown = _AUTHORIZATION.fullmatch(found.get("auth", ""))
    if shown is None:
        raise _malformed("it shows no bearer token")
    return (gs2[1] or "").replace("=2C", ",").replace("=3D", "="), shown[1]


def _malformed(why: str) -> PeerRefused:
    return PeerRefused(f"{NAME}: the client's first message: {why}")
