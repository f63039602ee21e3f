"""The address of a worker's REST interface, its TLS and its users, as its options say them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from ottla.client.model import ClientSettings
from ottla.config.passwords import UsersFile
from ottla.connect.errors import ConfigException
from ottla.jobs.caller_rights import MAPPING_RULES, CallerOf, CallerRights, RightsUnreadable, anybody, asks
from ottla.jobs.caller_tokens import CallerTokens
from ottla.tls.contexts import TlsContext
from ottla.web.entry import Asked, https_context
from ottla.web.exchange import Handler

DEFAULT: Final = "http://127.0.0.1:8083"
_PORT: Final = 8083
TLS_PREFIX: Final = "listeners.https."
USERS: Final = "ottla.rest.users"
"""A file of lines NAME=PASSWORD: requests must bring one of them."""
TOKENS: Final = "ottla.rest.tokens"
"""A file of `sasl.oauthbearer.*` options: requests may bring a token that they take."""
_CLIENT_AUTH: Final = "ssl.client.auth"
Opened = TypeVar("Opened")


class Address(NamedTuple):
    """The address to bind, and the host that the worker's id names."""

    host: str
    port: int
    shown: str
    scheme: str = "http"


def address_of(worker: Mapping[str, str]) -> Address:
    """The listener of a worker's properties; ConfigException for one that there is not here."""
    given = worker.get("listeners", "").strip() or DEFAULT
    if "," in given:
        raise ConfigException(
            f"Invalid value {given} for configuration listeners: a worker listens at one address here"
        )
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError as fault:
        raise ConfigException(f"Invalid value {given} for configuration listeners: {fault}") from None
    if parts.scheme not in ("http", "https"):
        raise ConfigException(
            f"Invalid value {given} for configuration listeners: write http://HOST:PORT or https://HOST:PORT"
        )
    host = parts.hostname or "0.0.0.0"  # no host means all addresses, as in Kafka
    return Address(host, _PORT if port is None else port, parts.hostname or "localhost", parts.scheme)


def context_of(worker: Mapping[str, str]) -> TlsContext | None:
    """The context of TLS for an address of https, by ssl.* or listeners.https.ssl.*; ConfigException for wrong ones."""
    if address_of(worker).scheme != "https":
        return None
    try:
        return https_context(worker, TLS_PREFIX)
    except ValueError as fault:
        raise ConfigException(f"listeners: {fault}") from None


def caller_rights(worker: Mapping[str, str], bootstrap: str, client: ClientSettings) -> CallerRights | None:
    """The judge of the callers; None where nobody is asked who they are. ConfigException for wrong mapping rules."""
    tls: dict[str, str] = {}
    if address_of(worker).scheme == "https":
        tls = {name: worker[name] for name in (_CLIENT_AUTH, MAPPING_RULES) if name in worker}
        tls |= {name.removeprefix(TLS_PREFIX): text for name, text in worker.items() if name.startswith(TLS_PREFIX)}
    if not asks(tls, worker.get(USERS), worker.get(TOKENS)):
        return None
    try:
        return CallerRights(bootstrap, client, mapping_rules=tls.get(MAPPING_RULES, ""))
    except ValueError as fault:
        raise ConfigException(f"{MAPPING_RULES}: {fault}") from None


@asynccontextmanager
async def judging(rights: CallerRights | None) -> AsyncIterator[CallerOf]:
    """In this block callers are judged; ConfigException where the brokers do not show what they may do."""
    if rights is None:
        yield anybody
        return
    try:
        async with rights:
            yield rights
    except RightsUnreadable as fault:
        raise ConfigException(f"the REST interface: {fault}") from None


def guarded(app: Handler, worker: Mapping[str, str]) -> Handler:
    """The handler, behind passwords and tokens where the worker's properties name a file of either."""
    users = _opened(worker, USERS, UsersFile)
    tokens = _opened(worker, TOKENS, CallerTokens)
    return app if users is None and tokens is None else Asked(app, users, "ottla connect", tokens)


def _opened(worker: Mapping[str, str], option: str, opening: Callable[[str], Opened]) -> Opened | None:
    """The file of an option, opened; ConfigException where it does not do."""
    path = worker.get(option)
    try:
        return opening(path) if path else None
    except ValueError as fault:
        raise ConfigException(f"{option}: {fault}") from None
