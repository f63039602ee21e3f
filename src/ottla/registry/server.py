"""A registry behind a listening socket: in an asyncio loop that exists, or in a thread with a loop of its own."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import nullcontext

from ottla.jobs.caller_rights import CallerRights, anybody
from ottla.registry.app import RegistryApp
from ottla.registry.service import Registry
from ottla.web.entry import Asked, KnownUsers, TokenOwners
from ottla.web.server import listening, serving, url_of
from ottla.web.thread import LoopThread


@contextlib.asynccontextmanager
async def opened(
    registry: Registry,
    bound: socket.socket,
    *,
    ssl_context: ssl.SSLContext | None = None,
    users: KnownUsers | None = None,
    tokens: TokenOwners | None = None,
    rights: CallerRights | None = None,
) -> AsyncIterator[None]:
    """Open a registry and serve it on a bound socket for as long as the block lasts; close all behind it.

    `users` are asked for passwords, `tokens` for tokens; neither: nobody is asked. `rights` judge the callers; None:
    they may do everything.
    """
    app = RegistryApp(registry, anybody if rights is None else rights)
    handler = app if users is None and tokens is None else Asked(app, users, "ottla registry", tokens)
    with bound:
        async with registry, rights or nullcontext(), serving(handler, bound, ssl_context=ssl_context):
            yield


class RegistryThread(LoopThread):
    """A registry in a thread of this process; a context manager. `url` is where it listens."""

    def __init__(
        self, bootstrap: str, *, host: str = "127.0.0.1", port: int = 8081, topic: str = "_schemas",
        replication_factor: int = -1, accept_damage: bool = False,
    ) -> None:  # fmt: skip
        bound = listening(host, port)
        self.url = url_of(host, bound)

        def opening() -> contextlib.AbstractAsyncContextManager[None]:
            registry = Registry(
                bootstrap, topic=topic, replication_factor=replication_factor, accept_damage=accept_damage
            )
            return opened(registry, bound)

        super().__init__("ottla-registry", opening)
