"""How bytes reach a broker: the settings of a connection, and the hooks by which TLS and SASL wrap it.

`secure` turns a connected socket into one that speaks TLS; `authenticate` runs its exchange over a fresh
connection, before the first request. Both are None for PLAINTEXT.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    import ssl

    from ottla.client.aio.cluster import AsyncConnection
    from ottla.client.blocking.cluster import Connection


@dataclass(frozen=True, slots=True)
class Security:
    """What wraps a connection. The blocking face uses the first two, the asyncio face the last two."""

    secure: Callable[[socket.socket, str], socket.socket] | None = None
    authenticate: Callable[[Connection], None] | None = None
    tls: ssl.SSLContext | None = None
    authenticate_async: Callable[[AsyncConnection], Awaitable[None]] | None = None


PLAINTEXT = Security()
