"""The parts that the HTTP sink and source share: a service's options, headers that show who asks, and a thread."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from ottla.connect.checks import between
from ottla.connect.config_def import Importance, Option, Password, Type
from ottla.connect.errors import ConfigException
from ottla.connect.plugins.http.requests import Service

T = TypeVar("T")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NEEDS: Final = {
    "none": (), "basic": ("http.user", "http.secret"), "bearer": ("http.secret",),
    "header": ("http.secret", "http.auth.header"),
}  # fmt: skip


def header_list(name: str, value: Any) -> None:
    """The option is a list of headers."""
    for each in value or ():
        header, colon, content = each.partition(":")
        if not colon or not _TOKEN.fullmatch(header) or not is_plain(content):
            raise ConfigException.of(name, "[hidden]", "write NAME: VALUE in ASCII, with commas between")


SERVICE_OPTIONS: Final = (
    Option("http.headers", Type.LIST, [], Importance.MEDIUM, "Headers of all requests, as NAME: VALUE.", header_list),
    Option("http.user", Type.STRING, None, Importance.MEDIUM, "The user of http.auth=basic."),
    Option("http.timeout.ms", Type.INT, 30_000, Importance.MEDIUM, "The longest wait for a connection or an answer.",
           between(1)),
)  # fmt: skip


def check_address(address: str) -> None:
    """ValueError unless it is an address of HTTP that may have variables behind the host."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or "$" in parts.netloc or "@" in parts.netloc:
        raise ValueError("write http://HOST/PATH or https://HOST/PATH; the host has no variable and no password")
    if not is_plain(address) or " " in address or "#" in address:
        raise ValueError("an address is ASCII without blanks and without #: write others as %XX")
    _ = parts.port  # raises ValueError unless it is a number


def check_authorization(options: Mapping[str, Any]) -> None:
    """The options that `http.auth` needs are there, and no others; a secret that stands in a header can do so."""
    auth = options["http.auth"]
    for name in ("http.user", "http.secret", "http.auth.header"):
        if (name in _NEEDS[auth]) != (options.get(name) is not None):
            raise ConfigException(f"http.auth={auth} {'needs' if name in _NEEDS[auth] else 'has no use for'} {name}")
    if auth in ("bearer", "header") and not is_plain(options["http.secret"].value):
        raise ConfigException("http.secret is no token: a token is printable ASCII without line ends")


def is_plain(content: str) -> bool:
    """True for printable ASCII, which a header can hold."""
    return content.isascii() and content.isprintable()


def authorization(options: Mapping[str, Any]) -> dict[str, str]:
    """The header that shows who asks."""
    secret: Password | None = options["http.secret"]
    if secret is None:
        return {}
    if options["http.auth"] == "header":
        return {options["http.auth.header"]: secret.value}
    if options["http.auth"] == "bearer":
        return {"Authorization": f"Bearer {secret.value}"}
    pair = f"{options['http.user']}:{secret.value}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


class Asking:
    """A web service that a task asks in a thread of its own, with the headers of all requests."""

    def __init__(self, url: str, options: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self.service = Service(url, options["http.timeout.ms"] / 1000)
        self.headers = {**headers, **authorization(options)}
        for each in options["http.headers"]:
            name, _, content = each.partition(":")
            self.headers[name] = content.strip()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="http")

    async def apart(self, ask: Callable[[], T]) -> T:
        """The result of a call that blocks."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, ask)

    async def close(self) -> None:
        """End the connection, once a request in progress has ended."""
        await self.apart(self.service.close)
        self._thread.shutdown()
