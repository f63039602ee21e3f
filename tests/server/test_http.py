"""The small HTTP server of /metrics and /health, by itself."""

import asyncio

import pytest

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


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET /health HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET /health HTTP/1.1\r\nHost: here\r\nLong: " + b"a" * 20_000, b"HTTP/1.1 431 "),
    ],
)
def test_what_is_no_request_is_answered_before_the_connection_ends(request_bytes: bytes, status: bytes) -> None:
    async def run() -> None:
        server = _pages()
        reader, writer = await asyncio.open_connection(*await server.open("127.0.0.1", 0))
        writer.write(request_bytes)
        assert (await reader.readline()).startswith(status)
        writer.close()
        await server.close()

    asyncio.run(run())
