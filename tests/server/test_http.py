"""The small HTTP server of /metrics and /health, by itself."""

import asyncio

from ottla.server.http import HttpServer


def _pages() -> HttpServer:
    return HttpServer({"/health": lambda: (200, "text/plain", b"serving\n")})


def test_a_stop_ends_connections_that_clients_keep_open() -> None:
    """Prometheus keeps its connection from scrape to scrape."""

    async def run() -> None:
        server = _pages()
        reader, writer = await asyncio.open_connection(*await server.open("127.0.0.1", 0))
        writer.write(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
        assert await reader.readuntil(b"serving\n")
        await server.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await reader.read() == b""
        writer.close()

    asyncio.run(run())
