"""A listening socket and its connections: how many there are, who is turned away, how they end at a stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator

from ottla.web.conversation import Conversation
from ottla.web.exchange import Handler
from ottla.web.limits import Limits

log = logging.getLogger("ottla.web")
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
    b'{"error_code":503,"message":"HTTP 503 Service Unavailable: too many connections; try again later"}'
)


def listening(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. OSError names the address that cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as fault:
        bound.close()
        raise OSError(fault.errno, f"cannot listen on {host}:{port}: {fault.strerror or fault}") from fault
    return bound


def url_of(host: str, bound: socket.socket, *, scheme: str = "http") -> str:
    """The URL of a bound socket."""
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{bound.getsockname()[1]}"


class WebServer:
    """Serves one handler, usually a Router, on one bound socket of this asyncio loop."""

    def __init__(
        self, handler: Handler, *, limits: Limits | None = None, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self._handler = handler
        self._limits = limits or Limits()
        self._ssl_context = ssl_context
        self._server: asyncio.Server | None = None
        self._closed = False
        self._open: dict[Conversation, asyncio.Task[None]] = {}
        self._waiting: dict[Conversation, None] = {}
        """Connections without a whole request, the one that has waited longest first."""

    async def open(self, bound: socket.socket) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._serve, sock=bound, ssl=self._ssl_context)

    async def close(self) -> None:
        """Listen no longer; close idle connections and endless answers at once, others after their answer."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        for conversation, task in list(self._open.items()):
            conversation.stop()
            if conversation.waiting or conversation.endless:
                task.cancel()
        if self._open:
            _, late = await asyncio.wait(self._open.values(), timeout=self._limits.stop_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._closed or not self._room():
            writer.write(b"" if self._closed else _TOO_MANY)
            writer.close()
            return
        conversation = Conversation(self._handler, self._limits, reader, writer, self._note)
        self._open[conversation] = task
        try:
            await conversation.run()
            writer.close()
        except (OSError, TimeoutError) as fault:
            log.debug("http connection ended: %s", fault or type(fault).__name__)
            writer.transport.abort()
        except asyncio.CancelledError:
            log.debug("http connection ended by this side")
            writer.transport.abort()
        except Exception:
            log.exception("an answer ended before its end")
            writer.transport.abort()
        finally:
            self._open.pop(conversation, None)
            self._waiting.pop(conversation, None)

    def _note(self, conversation: Conversation) -> None:
        self._waiting.pop(conversation, None)
        if conversation.waiting:
            self._waiting[conversation] = None

    def _room(self) -> bool:
        """Room for one connection more, for which the one may be closed that has waited longest for a request."""
        if len(self._open) < self._limits.connections:
            return True
        for conversation in self._waiting:
            self._open.pop(conversation).cancel()
            del self._waiting[conversation]
            return True
        return False


@contextlib.asynccontextmanager
async def serving(
    handler: Handler, bound: socket.socket, *, limits: Limits | None = None, ssl_context: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve on a bound socket for as long as the block lasts."""
    server = WebServer(handler, limits=limits, ssl_context=ssl_context)
    await server.open(bound)
    try:
        yield
    finally:
        await server.close()
