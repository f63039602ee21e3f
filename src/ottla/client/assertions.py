"""Assertions: tokens by which a client proves to an identity provider who it is, in place of a secret.

By Kafka's option names (KIP-1139, KIP-1258). One is signed here with a private key, or another program keeps one in a
file. `oauth.py` sends it. `joserfc` (the extra `security`) signs; it is imported at the first assertion.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import quote

from ottla.config.allowed_urls import url_refusal
from ottla.web.fetch import FetchFailed, fetched

PREFIX: Final = "sasl.oauthbearer.assertion."
FILE, KEY_FILE = f"{PREFIX}file", f"{PREFIX}private.key.file"
ISSUER = f"{PREFIX}claim.iss"
_TEMPLATE, _PASSPHRASE = f"{PREFIX}template.file", f"{PREFIX}private.key.passphrase"
_ALGORITHM, _WITH_ID = f"{PREFIX}algorithm", f"{PREFIX}claim.jti.include"
_CLAIMS = ("aud", "iss", "sub")
_SECONDS = {"exp": (300, 86_400), "nbf": (60, 3_600)}
"""With their default and their most, which are Kafka's."""
OPTIONS = (
    FILE, KEY_FILE, _TEMPLATE, _PASSPHRASE, _ALGORITHM, _WITH_ID, *(f"{PREFIX}claim.{name}" for name in _CLAIMS),
    *(f"{PREFIX}claim.{name}.seconds" for name in _SECONDS),
)  # fmt: skip
ALGORITHMS = ("RS256", "ES256")
_READ_S = 10.0


@dataclass(frozen=True, slots=True, repr=False)
class AssertionSource:
    """The way to an assertion. Not printable: it may hold the passphrase of a key."""

    file: str = ""
    """The file:// URL of one that another program keeps; empty: it is signed here."""
    key: str = ""
    """The file:// URL of a private key in PEM."""
    passphrase: str = ""
    algorithm: str = "RS256"
    template: str = ""
    """The file:// URL of a JSON object with `header` and `payload`, to which the rest is added."""
    claims: tuple[tuple[str, str], ...] = ()
    lives_s: int = 300
    before_s: int = 60
    """The seconds before its making from which on it is good: clocks differ."""
    with_id: bool = False


def assertion_of(texts: Mapping[str, str]) -> AssertionSource:
    """The source that options name. ValueError says what is wrong."""
    if texts.get(FILE):
        signing = [name for name in OPTIONS if name != FILE and name in texts]
        if signing:
            raise ValueError(f"{FILE} holds an assertion as it is sent: leave out {', '.join(signing)}")
        return AssertionSource(file=_url(texts, FILE))
    algorithm = texts.get(_ALGORITHM, ALGORITHMS[0]).strip()
    if algorithm not in ALGORITHMS:
        raise ValueError(f"{_ALGORITHM} must be {' or '.join(ALGORITHMS)}, not {algorithm}")
    if not texts.get(KEY_FILE):
        raise ValueError(f"an assertion needs a key to be signed with, or to be in a file: set {KEY_FILE} or {FILE}")
    if find_spec("joserfc") is None:
        raise ValueError(f"{KEY_FILE} needs pip install 'ottla[security]'")
    with_id = texts.get(_WITH_ID, "false").strip().lower()
    if with_id not in ("true", "false"):
        raise ValueError(f"{_WITH_ID} must be true or false, not {with_id}")
    return AssertionSource(
        key=_url(texts, KEY_FILE),
        passphrase=texts.get(_PASSPHRASE, ""),
        algorithm=algorithm,
        template=_url(texts, _TEMPLATE) if texts.get(_TEMPLATE) else "",
        claims=tuple((name, texts[f"{PREFIX}claim.{name}"]) for name in _CLAIMS if texts.get(f"{PREFIX}claim.{name}")),
        lives_s=_seconds(texts, "exp"),
        before_s=_seconds(texts, "nbf"),
        with_id=with_id == "true",
    )


def _url(texts: Mapping[str, str], name: str) -> str:
    path = texts[name].strip()
    if not path.startswith("/"):
        raise ValueError(f"{name} must be a path from / on, not {path}")
    url = f"file://{quote(path)}"
    if (why := url_refusal(name, url)) is not None:
        raise ValueError(why)
    return url


def _seconds(texts: Mapping[str, str], name: str) -> int:
    option = f"{PREFIX}claim.{name}.seconds"
    default, most = _SECONDS[name]
    text = texts.get(option, str(default)).strip()
    if not text.isdecimal() or int(text) > most:
        raise ValueError(f"{option} must be a number of seconds from 0 to {most}, not {text}")
    return int(text)


def assertion(source: AssertionSource, now_s: float) -> str:
    """An assertion that is good now; FetchFailed says why there is none. The files are read each time: keys change."""
    if source.file:
        return fetched(source.file, _READ_S).decode("utf-8", "replace").strip()
    header, claims = _template(source.template) if source.template else ({}, {})
    now = int(now_s)
    header |= {"alg": source.algorithm, "typ": "JWT"}
    claims |= dict(source.claims) | {"iat": now, "exp": now + source.lives_s, "nbf": now - source.before_s}
    if source.with_id:
        claims["jti"] = str(uuid.uuid4())
    return _signed(source, header, claims)


def _template(url: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        found = json.loads(fetched(url, _READ_S))
        header, claims = (found.get(name, {}) for name in ("header", "payload"))
    except (ValueError, AttributeError, RecursionError):
        raise FetchFailed(f"{url} holds no JSON object", passing=False) from None
    strange = sorted(found.keys() - {"header", "payload"})
    if strange or not isinstance(header, dict) or not isinstance(claims, dict):
        raise FetchFailed(f"{url} must hold the objects header and payload, and nothing else", passing=False)
    return header, claims


def _signed(source: AssertionSource, header: dict[str, Any], claims: dict[str, Any]) -> str:
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, RSAKey
    from joserfc.jws import JWSRegistry

    kind = RSAKey if source.algorithm == "RS256" else ECKey
    content = fetched(source.key, _READ_S)
    try:
        key = kind.import_key(content, password=source.passphrase.encode() or None)
    except (ValueError, TypeError, JoseError) as fault:
        why = f"{source.key} holds no private key for {source.algorithm}, or the passphrase is another: {fault}"
        raise FetchFailed(why, passing=False) from None
    if not key.is_private:
        raise FetchFailed(f"{source.key} holds a public key; a private one is needed", passing=False)
    registry = JWSRegistry(algorithms=[source.algorithm], strict_check_header=False)
    try:
        return jwt.encode(header, claims, key, registry=registry)
    except (ValueError, TypeError, JoseError) as fault:
        raise FetchFailed(f"an assertion cannot be signed with {source.key}: {fault}", passing=False) from None
