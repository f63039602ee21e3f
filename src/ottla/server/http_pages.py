"""The pages of a broker over HTTP: /metrics and /health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ottla.config.listeners import is_loopback

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.config.broker import BrokerConfig
    from ottla.server.listener import Listener
    from ottla.server.loop_delay import LoopDelay
    from ottla.server.sync_loop import SyncLoop
    from ottla.web.exchange import Request, Response
    from ottla.web.server import WebServer


class BrokerPages:
    """`open` serves them; `description` says where."""

    def __init__(
        self, node: Node, listeners: Sequence[Listener], syncs: Mapping[str, SyncLoop], delay: LoopDelay
    ) -> None:
        self._node = node
        self._listeners = listeners
        self._syncs = syncs
        self._delay = delay
        self._http: WebServer | None = None
        self.description = "off"

    async def open(self, config: BrokerConfig, port: int, texts: Mapping[str, str]) -> list[str]:
        """Serve on a port; return warnings. ValueError if TLS or the users that are asked for cannot be had."""
        from ottla.config.passwords import UsersFile
        from ottla.web.entry import Asked, https_context
        from ottla.web.exchange import Handler
        from ottla.web.limits import Limits
        from ottla.web.routes import Router
        from ottla.web.server import WebServer, listening, url_of

        context = https_context(texts) if config.http_tls else None
        handler: Handler = Router(
            {"metrics": {"GET": self._metrics}, "health": {"GET": self._health}}, lists_paths=True
        )
        if config.http_users is not None:
            handler = Asked(handler, UsersFile(config.http_users), "ottla")
        # Few connections: the open files of this process are for partitions and Kafka's clients.
        self._http = WebServer(handler, limits=Limits(body_bytes=1 << 16, connections=100), ssl_context=context)
        try:
            bound = listening(config.http_host, port)
            await self._http.open(bound)
        except OSError as fault:
            self.description = "off: the port is taken"
            return [f"no /metrics: {fault.strerror}"]
        scheme = "http" if context is None else "https"
        self.description = f"{url_of(config.http_host, bound, scheme=scheme)}/metrics"
        if is_loopback(config.http_host) or config.http_users is not None:
            return []
        return [f"everybody who reaches {self.description} may read it: set ottla.http.users"]

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _metrics(self, _request: Request) -> Response:
        from ottla.broker.measures import gather
        from ottla.metrics.exposition import CONTENT_TYPE, render
        from ottla.server.measures import gather_process
        from ottla.web.exchange import Response

        process = gather_process(self._listeners, self._syncs, self._delay)
        return Response(render(chain(gather(self._node), process)).encode(), CONTENT_TYPE)

    async def _health(self, _request: Request) -> Response:
        from ottla.server.health import health
        from ottla.web.exchange import TEXT, Response

        found = health(self._node)
        return Response(found.text().encode(), TEXT, 200 if found.serves else 503)
