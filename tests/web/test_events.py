"""Events as browsers read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.web.raw import GET, run, served

from ottla.web.events import event, events
from ottla.web.exchange import Request, Response


def test_an_event_is_lines_with_a_name_a_number_and_json() -> None:
    assert event({"a": "x\ny"}) == b'data: {"a":"x\\ny"}\n\n'
    assert event([1], name="lag", number="7") == b"event: lag\nid: 7\ndata: [1]\n\n"


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b"])
def test_a_name_cannot_smuggle_an_event(text: str) -> None:
    with pytest.raises(ValueError, match="no line ends"):
        event(1, name=text)
    with pytest.raises(ValueError, match="no line ends"):
        event(1, number=text)


def test_a_silent_stream_sends_comments_and_goes_on() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def source() -> AsyncGenerator[bytes, None]:
            yield event(1)
            await go_on.wait()
            yield event(2)

        async def handler(_request: Request) -> Response:
            return events(source(), quiet_s=0.01)

        async with served(handler) as server:
            client = await server.client()
            _, headers, _ = await client.answer(GET)
            assert headers["content-type"] == "text/event-stream"
            await client.reader.readuntil(b"data: 1\n\n")
            await client.reader.readuntil(b":\n\n")
            go_on.set()
            await client.reader.readuntil(b"data: 2\n\n\r\n0\r\n\r\n")
            assert await client.reader.read() == b""

    run(test)


def test_the_head_is_sent_before_the_first_event() -> None:
    async def test() -> None:
        async def source() -> AsyncGenerator[bytes, None]:
            await asyncio.Event().wait()
            yield event(1)

        async def handler(_request: Request) -> Response:
            return events(source(), quiet_s=3600)

        async with served(handler) as server:
            client = await server.client()
            assert (await client.answer(GET))[0] == 200

    run(test)


def test_a_silent_source_is_closed_when_its_client_leaves() -> None:
    async def test() -> None:
        ended = asyncio.Event()

        async def source() -> AsyncGenerator[bytes, None]:
            try:
                yield event(1)
                await asyncio.Event().wait()
            finally:
                ended.set()

        async def handler(_request: Request) -> Response:
            return events(source(), quiet_s=3600)

        async with served(handler) as server:
            client = await server.client()
            client.writer.write(GET)
            await client.reader.readuntil(b"data: 1\n\n")
            client.writer.close()
            await ended.wait()

    run(test)


def test_many_streams_end_with_their_server() -> None:
    async def test() -> None:
        ended = 0

        async def source() -> AsyncGenerator[bytes, None]:
            nonlocal ended
            try:
                yield event(1)
                await asyncio.Event().wait()
            finally:
                ended += 1

        async def handler(_request: Request) -> Response:
            return events(source())

        async with served(handler, stop_s=60) as server:
            clients = [await server.client() for _ in range(100)]
            for client in clients:
                client.writer.write(GET)
            for client in clients:
                await client.reader.readuntil(b"data: 1\n\n")
            await server.server.close()
            assert ended == 100

    run(test)
