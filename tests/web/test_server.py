"""The number of connections, their end at a stop, and TLS."""

from __future__ import annotations

import asyncio
import datetime
import errno
import ssl
from collections.abc import AsyncGenerator
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.web.raw import GET, echo, run, served

from ottla.web.exchange import Request, Response
from ottla.web.limits import Limits
from ottla.web.server import listening, serving, url_of
from ottla.web.thread import LoopThread


def test_a_stop_ends_connections_that_clients_keep_open() -> None:
    """Prometheus keeps its connection from scrape to scrape."""

    async def test() -> None:
        async with served(echo, stop_s=60) as server:
            client = await server.client()
            await client.answer(GET)
            await server.server.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert await client.reader.read() == b""

    run(test)


def test_a_stop_waits_for_the_answer_that_is_under_way() -> None:
    async def test() -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def handler(request: Request) -> Response:
            asked.set()
            await go_on.wait()
            return await echo(request)

        async with served(handler, stop_s=60) as server:
            client = await server.client()
            client.writer.write(GET)
            await asked.wait()
            stopping = asyncio.create_task(server.server.close())
            await asyncio.sleep(0)
            go_on.set()
            status, headers, _ = await client.answer()
            assert (status, headers["connection"]) == (200, "close")
            await stopping

    run(test)


def test_a_stop_waits_no_longer_than_it_may() -> None:
    async def test() -> None:
        asked = asyncio.Event()

        async def handler(_request: Request) -> Response:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with served(handler, stop_s=0.05) as server:
            client = await server.client()
            client.writer.write(GET)
            await asked.wait()
            await server.server.close()
            assert await client.reader.read() == b""

    run(test)


def test_a_stop_cuts_answers_without_end_at_once() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"first"
        await asyncio.Event().wait()

    async def handler(_request: Request) -> Response:
        return Response(pieces(), endless=True)

    async def test() -> None:
        async with served(handler, stop_s=60) as server:
            client = await server.client()
            await client.answer(GET)
            await client.reader.readuntil(b"first\r\n")
            await server.server.close()
            assert await client.reader.read() == b""

    run(test)


def test_a_new_connection_takes_the_place_of_the_one_that_waited_longest() -> None:
    async def test() -> None:
        async with served(echo, connections=2) as server:
            first, second = await server.client(), await server.client()
            for client in (first, second, first):
                await client.answer(GET)
            third = await server.client()
            assert (await third.answer(GET))[0] == 200
            assert await second.reader.read() == b""
            assert (await first.answer(GET))[0] == 200

    run(test)


def test_a_connection_is_turned_away_while_all_others_are_answered() -> None:
    async def test() -> None:
        asked = asyncio.Event()

        async def handler(_request: Request) -> Response:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with served(handler, connections=1, stop_s=0) as server:
            first = await server.client()
            first.writer.write(GET)
            await asked.wait()
            second = await server.client()
            assert (await second.reader.read()).startswith(b"HTTP/1.1 503 ")

    run(test)


def test_port_0_takes_a_free_one_and_a_taken_one_is_named() -> None:
    with listening("127.0.0.1", 0) as bound:
        bound.listen()
        port = bound.getsockname()[1]
        assert url_of("127.0.0.1", bound) == f"http://127.0.0.1:{port}"
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use") as fault:
            listening("127.0.0.1", port)
        assert fault.value.errno == errno.EADDRINUSE


def certificate(folder: Path) -> Path:
    """A certificate of 127.0.0.1 that signs itself, with its key, in one file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "here.pem"
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(serialization.Encoding.PEM, *form)
    )
    return file


def test_requests_are_served_over_tls_and_refusals_too(tmp_path: Path) -> None:
    async def test() -> None:
        file = certificate(tmp_path)
        ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        ours.load_cert_chain(file)
        theirs = ssl.create_default_context(cafile=file)
        async with served(echo, ours) as server:
            client = await server.client(ssl=theirs)
            assert (await client.answer(GET))[2] == b"GET / "
            assert (await client.error(b"nonsense\r\n\r\n"))[0] == 400
            with pytest.raises(asyncio.IncompleteReadError):
                await (await server.client()).answer(GET)

    run(test)


def test_a_server_in_a_thread_ends_with_its_block() -> None:
    bound = listening("127.0.0.1", 0)
    port = bound.getsockname()[1]

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        found = await reader.readuntil(b"GET / ")
        writer.close()
        return found

    with LoopThread("test", lambda: serving(echo, bound)):
        assert asyncio.run(ask()).startswith(b"HTTP/1.1 200 ")
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(ask())


def test_the_error_that_keeps_a_thread_from_opening_is_raised_by_its_start() -> None:
    bound = listening("127.0.0.1", 0)
    bound.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        LoopThread("test", lambda: serving(echo, bound)).start()


def test_the_guides_name_the_limits() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "registry.md").read_text()
    limits = Limits()
    assert f"takes bodies of {limits.body_bytes >> 20} MB" in guide
    assert limits.request_s == 60
    assert f"takes {limits.connections:,} connections" in guide
