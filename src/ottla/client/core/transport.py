"""The settings of a connection to a broker, and the hooks by which TLS and SASL wrap it.

`secure` turns a connected socket into one that speaks TLS; `authenticate` runs its exchange over a fresh
connection, before the first request. Both are None for PLAINTEXT.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import socket
    import ssl


class Exchange(Protocol):
    """A connection on which nothing but ApiVersions has been asked yet."""

    def request(self, message: Any, version: int | None = None) -> Any:
        """Send a request, return its answer. `version` None: the newest that both sides speak."""


class AsyncExchange(Protocol):
    """The same of the asyncio face."""

    async def request(self, message: Any, version: int | None = None) -> Any:
        """Send a request, return its answer. `version` None: the newest that both sides speak."""


@dataclass(frozen=True, slots=True)
class Security:
    """The wrapping of a connection. The blocking face uses the first two, the asyncio face the last two."""

    secure: Callable[[socket.socket, str], socket.socket] | None = None
    authenticate: Callable[[Exchange], None] | None = None
    tls: ssl.SSLContext | None = None
    authenticate_async: Callable[[AsyncExchange], Awaitable[None]] | None = None


PLAINTEXT = Security()
