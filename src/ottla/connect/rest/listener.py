"""The address of a worker's REST interface, as its option `listeners` says it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ottla.connect.errors import ConfigException

DEFAULT: Final = "http://127.0.0.1:8083"
_PORT: Final = 8083


class Address(NamedTuple):
    """The address to bind, and the host that the worker's id names."""

    host: str
    port: int
    shown: str


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
    if parts.scheme.lower() != "http":
        raise ConfigException(f"Invalid value {given} for configuration listeners: there is http://HOST:PORT here")
    host = parts.hostname or "0.0.0.0"  # no host means all addresses, as in Kafka
    return Address(host, _PORT if port is None else port, parts.hostname or "localhost")
