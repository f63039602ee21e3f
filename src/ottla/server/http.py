"""Serves /metrics: HTTP/1.1 by h11 over the loop's own streams, on loopback unless told otherwise."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import h11

log = logging.getLogger("ottla.http")
_LONGEST_S = 30.0
Page = tuple[int, str, bytes]
"""(status, content type, body)"""


class HttpServer:
    """Answers GET by path; everything else is 404 or 405."""

    def __init__(self, pages: dict[str, Callable[[], Page]]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; return the bound address. OSError if it is taken."""
        self._server = await asyncio.start_server(self._serve, host, port)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Listen no longer, and end the connections: clients keep theirs for the next request."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            async with asyncio.timeout(_LONGEST_S):
                await self._converse(reader, writer)
        except (OSError, TimeoutError, h11.ProtocolError) as fault:
            log.debug("http connection ended: %s", fault)
        except asyncio.CancelledError:
            log.debug("http connection ended: the broker stops")
        finally:
            self._serving.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        request: h11.Request | None = None
        while True:
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError as fault:
                writer.write(_refusal(connection, fault))
                await writer.drain()
                raise
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                writer.write(self._answer(connection, request))
                await writer.drain()
                if connection.our_state is not h11.DONE:
                    return
                connection.start_next_cycle()
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                return

    def _answer(self, connection: h11.Connection, request: h11.Request) -> bytes:
        path = request.target.split(b"?")[0].decode("latin-1")
        page = self._pages.get(path)
        if page is None:
            listing = "\n".join(sorted(self._pages))
            status, content_type, body = 404, "text/plain", f"Not here. There is:\n{listing}\n".encode()
        elif request.method not in (b"GET", b"HEAD"):
            status, content_type, body = 405, "text/plain", b"Only GET.\n"
        else:
            status, content_type, body = page()
        head = h11.Response(
            status_code=status,
            headers=[("Content-Type", content_type), ("Content-Length", str(len(body)))],
        )
        out = connection.send(head) or b""
        if request.method != b"HEAD":
            out += connection.send(h11.Data(data=body)) or b""
        return out + (connection.send(h11.EndOfMessage()) or b"")


def _refusal(connection: h11.Connection, fault: h11.RemoteProtocolError) -> bytes:
    """The answer to what is not a valid request; nothing if an answer can not be sent any more."""
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return b""
    body = f"{fault}\n".encode()
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), ("Connection", "close")]
    out = connection.send(h11.Response(status_code=fault.error_status_hint, headers=headers)) or b""
    return out + (connection.send(h11.Data(data=body)) or b"") + (connection.send(h11.EndOfMessage()) or b"")
