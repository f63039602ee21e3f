"""The address of a worker's REST interface, its TLS and its users, as its options say them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ottla.config.passwords import UsersFile
from ottla.connect.errors import ConfigException
from ottla.tls.contexts import TlsContext
from ottla.web.entry import Asked, https_context
from ottla.web.exchange import Handler

DEFAULT: Final = "http://127.0.0.1:8083"
_PORT: Final = 8083
TLS_PREFIX: Final = "listeners.https."
USERS: Final = "ottla.rest.users"
"""A file of lines NAME=PASSWORD: requests must bring one of them."""


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


def guarded(app: Handler, worker: Mapping[str, str]) -> Handler:
    """The handler, behind passwords where the worker's properties name a file of users."""
    path = worker.get(USERS)
    if not path:
        return app
    try:
        return Asked(app, UsersFile(path), "ottla connect")
    except ValueError as fault:
        raise ConfigException(f"{USERS}: {fault}") from None
