"""A server of a handler, and a socket to it, for tests that send bytes."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from ottla.web.exchange import Handler, Request, Response
from ottla.web.limits import Limits
from ottla.web.server import WebServer, listening

GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on asyncio's loop, and on the broker's."""
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(test())


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self, sent: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Send bytes; the status, the headers and the body (by Content-Length) of the next answer."""
        self.writer.write(sent)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return int(head[0].split()[1]), headers, body

    async def error(self, sent: bytes = b"") -> Any:
        """Send bytes; the status and the body of an error."""
        status, _, body = await self.answer(sent)
        return status, json.loads(body)


class Served:
    """A server, and the port that it listens on."""

    def __init__(self, server: WebServer, port: int) -> None:
        self.server, self.port = server, port
        self._writers: list[asyncio.StreamWriter] = []

    async def client(self, **options: Any) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **options)
        self._writers.append(writer)
        return Client(reader, writer)

    async def close(self) -> None:
        await self.server.close()
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def served(handler: Handler, ssl_context: ssl.SSLContext | None = None, **limits: float) -> AsyncIterator[Served]:
    server = WebServer(handler, limits=Limits(**limits), ssl_context=ssl_context)  # type: ignore[arg-type]
    bound = listening("127.0.0.1", 0)
    running = Served(server, bound.getsockname()[1])
    await server.open(bound)
    try:
        yield running
    finally:
        await running.close()


async def echo(request: Request) -> Response:
    """Tell what was asked."""
    return Response(f"{request.method} {request.path} ".encode() + request.body)
