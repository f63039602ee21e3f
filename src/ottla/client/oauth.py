"""Tokens for OAUTHBEARER: from an identity provider by client credentials, from a file, or from a function of Python.

By Kafka's option names (KIP-768, KIP-1139, KIP-1258) or librdkafka's. `assertions.py` has what may prove who the client
is in place of a secret. Tokens are kept in the process, for all its connections, and fetched anew before they expire.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from ottla.client import assertions
from ottla.client.assertions import AssertionSource, assertion, assertion_of
from ottla.config.allowed_urls import url_refusal
from ottla.web.fetch import FetchFailed, fetched

CALLBACK = "oauth_cb"
"""The function of Python, by confluent-kafka's name."""
URL = "sasl.oauthbearer.token.endpoint.url"
_KAFKAS = "org.apache.kafka.common.security.oauthbearer."
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_JWT_BEARER = "JwtBearerJwtRetriever"
_CLASSES = {
    "sasl.login.callback.handler.class": ("OAuthBearerLoginCallbackHandler", "secured.OAuthBearerLoginCallbackHandler"),
    _RETRIEVER: ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever", _JWT_BEARER),
    "sasl.oauthbearer.jwt.validator.class": ("DefaultJwtValidator", "ClientJwtValidator"),
}  # fmt: skip
"""Kafka's own names; no class is ever loaded."""
_ID = ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id")
_SECRET = ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret")
_SCOPE = ("sasl.oauthbearer.scope",)
_NUMBERS = {
    "sasl.login.connect.timeout.ms": 10_000.0,
    "sasl.login.read.timeout.ms": 10_000.0,
    "sasl.login.retry.backoff.ms": 100.0,
    "sasl.login.retry.backoff.max.ms": 10_000.0,
    "sasl.login.refresh.window.factor": 0.8,
    "sasl.login.refresh.window.jitter": 0.05,
    "sasl.login.refresh.min.period.seconds": 60.0,
    "sasl.login.refresh.buffer.seconds": 300.0,
}
"""With their defaults, which are Kafka's; Kafka has none for the first two."""
OPTIONS = (
    URL, *_ID, *_SECRET, *_SCOPE, *_CLASSES, *_NUMBERS, "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.method", "sasl.oauthbearer.config", "sasl.oauthbearer.extensions", *assertions.OPTIONS,
)  # fmt: skip
_URN = "urn:ietf:params:oauth"
_MOST_KEPT = 64
_AGAIN_AFTER_S = 10.0
"""The time before a provider is asked again that did not answer, while the token before is still good."""
_PATIENCE_S = 1.0
"""The time that a login waits for a newer token while there is a good one."""

log = logging.getLogger("ottla.client")


class TokenUnavailable(Exception):
    """There is no token; `passing`: there may be one another time."""

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(why)
        self.passing = passing


class Obtained(NamedTuple):
    """A token as it came."""

    token: str
    expires_s: float | None
    """Wall time; None: not known, and so good for one login."""
    extensions: Mapping[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class TokenSource:
    """The way to a token. Not printable: it holds a secret."""

    url: str = ""
    """The provider's token endpoint, or file:///PATH of a token."""
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    assertion: AssertionSource | None = None
    """The client's proof of who it is, in place of a secret."""
    by_bearer: bool = False
    """True if the assertion alone is traded for a token (RFC 7523, 2.1); else it comes with the client's (2.2)."""
    call: Callable[[str], Any] | None = None
    """In place of a URL: takes `config`, gives a token, or (token, expiry in seconds[, name[, extensions]])."""
    config: str = ""
    extensions: tuple[tuple[str, str], ...] = ()
    url_encoded: bool = False
    """True if id and secret are encoded for URLs before they are encoded for HTTP's Basic (RFC 6749, 2.3.1)."""
    numbers: tuple[tuple[str, float], ...] = tuple(_NUMBERS.items())

    def number(self, name: str) -> float:
        return dict(self.numbers)[name]


def refuse_classes(texts: Mapping[str, str]) -> None:
    """Refuse names of classes that are not Kafka's own; ValueError names the option."""
    for name, known in _CLASSES.items():
        if name in texts and texts[name] not in [_KAFKAS + each for each in known]:
            raise ValueError(f"{name}: no class is loaded here; Kafka's own names are taken: {', '.join(known)}")


def source_of(texts: Mapping[str, str], jaas: Mapping[str, str] | None, call: Any = None) -> TokenSource:
    """The source that options name; `jaas` holds those of the login module. ValueError says what is wrong."""
    extensions, options = _extensions(texts, jaas or {}), _from_jaas(jaas or {})
    numbers = tuple((name, _number(texts, name, default)) for name, default in _NUMBERS.items())
    method = texts.get("sasl.oauthbearer.method", "default").strip().lower()
    if method not in ("default", "oidc"):
        raise ValueError(f"sasl.oauthbearer.method must be default or oidc, not {method}")
    url = texts.get(URL, "").strip()
    if call is not None:
        if not callable(call):
            raise ValueError(f"{CALLBACK} must be a function, which takes a text and gives (token, expiry in seconds)")
        if url or method == "oidc":
            raise ValueError(f"{CALLBACK} and {URL} both say where tokens come from: give one of them")
        return TokenSource(call=call, config=texts.get("sasl.oauthbearer.config", ""), extensions=extensions,
                           numbers=numbers)  # fmt: skip
    if "sasl.oauthbearer.config" in texts:
        raise ValueError(
            f"sasl.oauthbearer.config is for {CALLBACK}, which is not given; unsecured tokens are not made"
        )
    if not url:
        raise ValueError(f"OAUTHBEARER needs tokens: set {URL} and {_ID[0]} (in Python {CALLBACK} will do)")
    if (why := url_refusal(URL, url)) is not None:
        raise ValueError(why)
    if urlsplit(url).scheme == "file":
        return TokenSource(url=url, extensions=extensions, numbers=numbers)
    client_id, secret = _first(texts, _ID, options.get("clientId")), _first(texts, _SECRET, options.get("clientSecret"))
    scope = _first(texts, _SCOPE, options.get("scope"))
    by_bearer = texts.get(_RETRIEVER) == _KAFKAS + _JWT_BEARER
    asserted = [name for name in assertions.OPTIONS if name in texts]
    if by_bearer or asserted:
        if secret:
            why = asserted[0] if asserted else f"{_RETRIEVER}={texts[_RETRIEVER]}"
            raise ValueError(f"{why} and {_SECRET[0]} both prove who the client is: give one of them")
        if by_bearer and client_id:
            raise ValueError(f"{_ID[0]} is not sent with {_JWT_BEARER}, whose assertion says who the client is")
        return TokenSource(url, client_id, scope=scope, assertion=assertion_of(texts), by_bearer=by_bearer,
                           extensions=extensions, numbers=numbers)  # fmt: skip
    if not client_id or not secret:
        raise ValueError(
            f"OAUTHBEARER needs who the client is: set {_ID[0]} and {_SECRET[0]}, or an assertion by "
            f"{assertions.PREFIX}…"
        )
    encoded = texts.get("sasl.oauthbearer.header.urlencode", "false").strip().lower()
    if encoded not in ("true", "false"):
        raise ValueError(f"sasl.oauthbearer.header.urlencode must be true or false, not {encoded}")
    return TokenSource(url, client_id, secret, scope, extensions=extensions, url_encoded=encoded == "true",
                       numbers=numbers)  # fmt: skip


def obtained(source: TokenSource) -> Obtained:
    """A token that is good now; TokenUnavailable where there is none. May wait: not for an event loop."""
    kept = _kept_of(source)
    if kept.good is not None and time.time() >= kept.refresh_s:
        kept.refresh_s = time.time() + _AGAIN_AFTER_S
        asking = threading.Thread(target=_refresh, args=[source, kept], name="ottla-token", daemon=True)
        asking.start()
        asking.join(_PATIENCE_S)
    if (good := kept.good) is not None:
        return good
    with kept.lock:
        return kept.good or _renew(source, kept)


def forget(source: TokenSource) -> None:
    """Keep no token of this source any more: nobody will ask for one."""
    with _kept_lock:
        _kept.pop(source, None)


@dataclass(slots=True)
class _Kept:
    """A token, and when to ask for the next; `lock` is held by the thread that asks."""

    token: Obtained | None = None
    refresh_s: float = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def good(self) -> Obtained | None:
        """The token, if it has not expired."""
        token = self.token
        return None if token is None or token.expires_s is None or time.time() >= token.expires_s else token


def _refresh(source: TokenSource, kept: _Kept) -> None:
    """Ask for the next token while there is a good one: nobody waits long for this."""
    with kept.lock:
        try:
            _renew(source, kept)
        except TokenUnavailable as fault:
            log.warning("no newer token to log in with: %s; the one at hand is shown until it expires", fault)


def _renew(source: TokenSource, kept: _Kept) -> Obtained:
    token = _ask(source)
    kept.token, kept.refresh_s = token, _refresh_at(source, token.expires_s, time.time())
    return token


_kept: dict[TokenSource, _Kept] = {}
_kept_lock = threading.Lock()


def _forget() -> None:
    """A forked process has none of the threads that hold the locks of its parent."""
    _kept.clear()
    _kept_lock.release()


os.register_at_fork(before=_kept_lock.acquire, after_in_parent=_kept_lock.release, after_in_child=_forget)


def _kept_of(source: TokenSource) -> _Kept:
    with _kept_lock:
        found = _kept.pop(source, None) or _Kept()
        _kept[source] = found  # the last one asked for goes last
        if len(_kept) > _MOST_KEPT:
            del _kept[next(iter(_kept))]
        return found


def _refresh_at(source: TokenSource, expires_s: float | None, now_s: float) -> float:
    """When a token is fetched anew, as Kafka's login thread has it (KIP-255)."""
    if expires_s is None:
        return now_s
    factor, jitter = (
        source.number("sasl.login.refresh.window.factor"),
        source.number("sasl.login.refresh.window.jitter"),
    )
    at_s = now_s + (expires_s - now_s) * min(factor + jitter * random.random(), 1.0)
    buffer_s = source.number("sasl.login.refresh.buffer.seconds")
    least_s = source.number("sasl.login.refresh.min.period.seconds")
    if now_s + least_s + buffer_s > expires_s:
        return at_s  # both cannot be kept: neither is
    return max(min(at_s, expires_s - buffer_s), now_s + least_s)


def _ask(source: TokenSource) -> Obtained:
    if source.call is not None:
        return _called(source, source.call)
    wait_ms, most_ms = source.number("sasl.login.retry.backoff.ms"), source.number("sasl.login.retry.backoff.max.ms")
    until_s = time.monotonic() + most_ms / 1000
    while True:
        try:
            return _fetched(source)
        except FetchFailed as fault:
            if not fault.passing or time.monotonic() + wait_ms / 1000 >= until_s:
                hint = "" if fault.passing else "; check the client's id, its secret or assertion, and the scope"
                raise TokenUnavailable(f"{fault}{hint}", passing=fault.passing) from None
        time.sleep(wait_ms / 1000)
        wait_ms *= 2


def _fetched(source: TokenSource) -> Obtained:
    timeout_s = max(source.number(f"sasl.login.{each}.timeout.ms") for each in ("connect", "read")) / 1000
    if urlsplit(source.url).scheme == "file":
        return _named(source, fetched(source.url, timeout_s).decode("utf-8", "replace").strip(), None)
    asked_s = time.time()
    form, headers = _proof(source, asked_s)
    form |= {"scope": source.scope} if source.scope else {}
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    content = fetched(source.url, timeout_s, form=urlencode(form).encode(), headers=headers)
    try:
        answer = json.loads(content)
        token = answer.get("access_token") or answer.get("id_token")
        lives_s = answer.get("expires_in")
    except (ValueError, AttributeError, RecursionError):
        raise TokenUnavailable(f"{source.url} answered no JSON object", passing=False) from None
    if not isinstance(token, str):
        raise TokenUnavailable(f"{source.url} answered without an access_token", passing=False)
    return _named(source, token, asked_s + lives_s if isinstance(lives_s, int | float) else None)


def _proof(source: TokenSource, now_s: float) -> tuple[dict[str, str], dict[str, str]]:
    """The part of a form, and the headers, that say who asks."""
    if source.assertion is not None:
        proof = assertion(source.assertion, now_s)
        if source.by_bearer:
            return {"grant_type": f"{_URN}:grant-type:jwt-bearer", "assertion": proof}, {}
        form = {"grant_type": "client_credentials", "client_assertion_type": f"{_URN}:client-assertion-type:jwt-bearer",
                "client_assertion": proof}  # fmt: skip
        return form | ({"client_id": source.client_id} if source.client_id else {}), {}
    parts = (source.client_id, source.client_secret)
    pair = ":".join(quote(part, safe="") if source.url_encoded else part for part in parts)
    return {"grant_type": "client_credentials"}, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _named(source: TokenSource, token: str, expires_s: float | None) -> Obtained:
    """A token with its end: the one that it says itself goes first."""
    ends_s = _end_in(token)
    return Obtained(token, expires_s if ends_s is None else ends_s, dict(source.extensions))


def _end_in(token: str) -> float | None:
    """The `exp` of a JWT, which only the broker can check; None for a token that says none."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        found = claims["exp"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return float(found) if isinstance(found, int | float) else None


def _called(source: TokenSource, call: Callable[[str], Any]) -> Obtained:
    try:
        given = call(source.config)
    except OSError as fault:
        raise TokenUnavailable(f"{CALLBACK} failed: {fault}", passing=True) from fault
    token, expires, *more = given if isinstance(given, tuple | list) and len(given) > 1 else (given, None)
    if not isinstance(token, str) or not isinstance(expires, int | float | None):
        raise TokenUnavailable(f"{CALLBACK} gave no token: it must give (token, expiry in seconds)", passing=False)
    found = _named(source, token, None if expires is None else float(expires))
    extensions = more[1] if len(more) > 1 else {}
    return found._replace(expires_s=found.expires_s if expires is None else float(expires),
                          extensions={**found.extensions, **extensions})  # fmt: skip


def _from_jaas(jaas: Mapping[str, str]) -> Mapping[str, str]:
    for name in jaas:
        if name.startswith("unsecured"):
            raise ValueError(f"sasl.jaas.config: {name}: unsecured tokens are not made")
        if name not in ("clientId", "clientSecret", "scope") and not name.startswith("extension_"):
            raise ValueError(f"sasl.jaas.config: {name} is no option of OAuthBearerLoginModule here: clientId, "
                             "clientSecret, scope, extension_NAME")  # fmt: skip
    return jaas


def _extensions(texts: Mapping[str, str], jaas: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found = {name.removeprefix("extension_"): value for name, value in jaas.items() if name.startswith("extension_")}
    for part in texts.get("sasl.oauthbearer.extensions", "").split(","):
        key, equals, value = part.strip().partition("=")
        if part.strip() and not equals:
            raise ValueError("sasl.oauthbearer.extensions must be NAME=VALUE, comma-separated")
        if equals:
            found[key] = value
    return tuple(found.items())


def _first(texts: Mapping[str, str], names: tuple[str, ...], in_jaas: str | None) -> str:
    return next((texts[name] for name in names if texts.get(name)), in_jaas or "")


def _number(texts: Mapping[str, str], name: str, default: float) -> float:
    try:
        found = float(texts.get(name, default))
    except ValueError:
        found = -1.0
    if not 0 <= found < 1 << 40:
        raise ValueError(f"{name} must be a number from 0 on, not {texts[name]}")
    return found
