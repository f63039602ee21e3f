"""Requests good and bad, over real sockets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
from tests.web.raw import GET, Served, echo, run, served

from ottla.web.exchange import Request, Response


def talk(test: Callable[[Served], Awaitable[None]], handler: object = echo, **limits: float) -> None:
    async def whole() -> None:
        async with served(handler, **limits) as server:  # type: ignore[arg-type]
            await test(server)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(whole)


def test_a_connection_serves_one_request_after_the_other() -> None:
    async def test(server: Served) -> None:
        client = await server.client()
        for path in (b"a", b"b"):
            status, headers, body = await client.answer(b"GET /%s HTTP/1.1\r\nHost: here\r\n\r\n" % path)
            assert (status, body) == (200, b"GET /%s " % path)
            assert headers["date"].endswith("gmt")

    talk(test)


def test_requests_that_were_sent_ahead_are_answered_in_their_order() -> None:
    async def test(server: Served) -> None:
        client = await server.client()
        post = b"POST /1 HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\nabc"
        assert (await client.answer(post + GET + GET))[2] == b"POST /1 abc"
        assert [(await client.answer())[2] for _ in range(2)] == [b"GET / "] * 2

    talk(test)


def test_a_body_in_chunks_arrives_whole() -> None:
    async def test(server: Served) -> None:
        client = await server.client()
        head = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert (await client.answer(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"))[2] == b"POST / abcde"

    talk(test)


def test_a_client_that_asks_before_it_sends_its_body_is_told_to() -> None:
    async def test(server: Served) -> None:
        client = await server.client()
        ask = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
        assert (await client.answer(ask))[0] == 100
        assert (await client.answer(b"x"))[2] == b"POST / x"

    talk(test)


def test_head_has_the_headers_of_get_and_no_body() -> None:
    async def handler(_request: Request) -> Response:
        return Response(b"seven b")

    async def test(server: Served) -> None:
        client = await server.client()
        client.writer.write(b"HEAD / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert b"Content-Length: 7\r\n" in await client.reader.readuntil(b"\r\n\r\n")
        assert (await client.answer(GET))[2] == b"seven b"

    talk(test, handler)


def test_an_absolute_url_is_read_as_its_path() -> None:
    async def test(server: Served) -> None:
        client = await server.client()
        assert (await client.answer(b"GET http://here:1/a?b HTTP/1.1\r\nHost: here\r\n\r\n"))[2] == b"GET /a "

    talk(test)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET / HTTP/1.1\r\nHost: here\r\nBad header\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nHost: here\r\nLong: " + b"a" * 20_000, 431),
        (b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 11\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n6\r\nabcdef\r\n", 413),
    ],
)
def test_a_bad_request_is_answered_in_json_before_the_connection_ends(sent: bytes, status: int) -> None:
    async def test(server: Served) -> None:
        client = await server.client()
        found, error = await client.error(sent)
        assert (found, error["error_code"]) == (status, status)
        assert error["message"].startswith(f"HTTP {status}")
        assert await client.reader.read() == b""

    talk(test, body_bytes=10)


def test_a_client_that_sends_a_long_body_to_its_end_still_reads_the_refusal() -> None:
    async def test(server: Served) -> None:
        client = await server.client()
        body = b"x" * (8 << 20)
        assert (await client.error(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body) + body))[
            0
        ] == 413

    talk(test)


def test_a_request_that_stays_unfinished_is_refused() -> None:
    async def test(server: Served) -> None:
        client = await server.client()
        assert (await client.error(b"GET / HTTP/1.1\r\nHost:"))[0] == 408
        assert await client.reader.read() == b""

    talk(test, request_s=0.05)


def test_a_connection_without_a_request_is_closed_without_a_word() -> None:
    async def test(server: Served) -> None:
        client = await server.client()
        assert await client.reader.read() == b""
        client = await server.client()
        assert (await client.answer(GET))[0] == 200
        assert await client.reader.read() == b""

    talk(test, request_s=1.0, idle_s=0.05)


def test_a_bug_in_a_handler_costs_one_request(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: Request) -> Response:
        return await echo(request) if request.path == "/" else Response(str(1 // 0).encode())

    async def test(server: Served) -> None:
        client = await server.client()
        status, error = await client.error(b"GET /bug HTTP/1.1\r\nHost: here\r\n\r\n")
        assert (status, error["error_code"]) == (500, 500)
        assert (await client.answer(GET))[0] == 200

    talk(test, handler)
    assert "ZeroDivisionError" in caplog.text


def test_an_answer_of_many_pieces_is_sent_in_chunks_and_the_connection_goes_on() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        for piece in (b"ab", b"", b"c"):
            yield piece

    async def handler(_request: Request) -> Response:
        return Response(pieces())

    async def test(server: Served) -> None:
        client = await server.client()
        for _ in range(2):
            _, headers, _ = await client.answer(GET)
            assert headers["transfer-encoding"] == "chunked"
            assert await client.reader.readuntil(b"0\r\n\r\n") == b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"

    talk(test, handler)


def test_an_answer_that_fails_on_its_way_does_not_look_whole(caplog: pytest.LogCaptureFixture) -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"ab"
        raise OSError("the disk is gone")

    async def handler(_request: Request) -> Response:
        return Response(pieces())

    async def test(server: Served) -> None:
        client = await server.client()
        await client.answer(GET)
        assert await client.reader.read() == b"2\r\nab\r\n"

    talk(test, handler)
    assert "the disk is gone" in caplog.text


def test_a_client_that_reads_nothing_is_cut_off_and_its_answer_is_closed() -> None:
    ended: list[str] = []

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x" * 65536
        finally:
            ended.append("closed")

    async def handler(_request: Request) -> Response:
        return Response(pieces())

    async def test(server: Served) -> None:
        ended.clear()
        client = await server.client()
        client.writer.write(GET)
        while not ended:
            await asyncio.sleep(0.01)

    talk(test, handler, send_s=0.05)


def test_each_answer_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: Served) -> None:
        client = await server.client()
        await client.answer(b"GET /a%0Ab?secret HTTP/1.1\r\nHost: here\r\n\r\n")
        await client.answer(b"nonsense\r\n\r\n")

    with caplog.at_level(logging.INFO, "ottla.web.access"):
        talk(test)
    first, second = [record.getMessage() for record in caplog.records if record.name == "ottla.web.access"][:2]
    assert first.startswith('127.0.0.1 "GET /a%0Ab" 200 11 bytes, ')
    assert second.startswith('127.0.0.1 "-" 400 HTTP 400')
