"""The dialer splits received bytes into frames with their own memory, and reports once how a connection ended."""

from __future__ import annotations

import asyncio
import struct

import pytest

from ottla.kernel.seams import Transport
from ottla.server.dialer import Dialer
from ottla.server.main import new_event_loop


class Receiver:
    def __init__(self) -> None:
        self.transport: Transport | None = None
        self.frames: list[memoryview] = []
        self.errors: list[OSError] = []
        self.changed = asyncio.Event()

    def connected(self, transport: Transport, certificate_hash: bytes = b"") -> None:
        self.transport = transport
        self.changed.set()

    def received(self, frame: memoryview) -> None:
        self.frames.append(frame)
        self.changed.set()

    def lost(self, error: OSError) -> None:
        self.errors.append(error)
        self.changed.set()

    async def until(self, holds) -> None:
        async def wait() -> None:
            while not holds():
                self.changed.clear()
                await self.changed.wait()

        await asyncio.wait_for(wait(), 120)


def in_the_loop_of_the_broker(story) -> None:
    """Run a story in the broker's loop: uvloop if it is installed, whose transports are not asyncio's."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(story())


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


async def dialled(receiver: Receiver, pieces: list[bytes], *, max_frame_bytes: int = 1 << 20, close: bool = True):
    """A server that sends the pieces one by one after its first received bytes."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readexactly(5))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if close:
            writer.close()
        else:
            await reader.read()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    dialer = Dialer(asyncio.get_running_loop())
    dialer.dial(host, port, receiver, timeout_ms=5000, max_frame_bytes=max_frame_bytes)
    assert receiver.transport is None, "never before dial returns"
    await receiver.until(lambda: receiver.transport is not None)
    assert receiver.transport is not None
    receiver.transport.send([b"he", b"llo"])
    return server, heard


def test_frames_arrive_whole_however_they_were_cut():
    frames = [b"", b"one", bytes(range(256)) * 1000, b"two", b"x" * 70_000, b"three"]
    whole = framed(*frames)

    async def run() -> None:
        receiver = Receiver()
        server, heard = await dialled(receiver, [whole[at : at + 9973] for at in range(0, len(whole), 9973)])
        await receiver.until(lambda: receiver.errors)
        assert heard == [b"hello"]
        assert [bytes(frame) for frame in receiver.frames] == frames
        assert [type(error) for error in receiver.errors] == [ConnectionResetError]
        server.close()

    in_the_loop_of_the_broker(run)


@pytest.mark.parametrize("size", [1001, -1])
def test_a_length_that_no_answer_has_ends_the_connection(size: int):
    async def run() -> None:
        receiver = Receiver()
        server, _ = await dialled(receiver, [struct.pack(">i", size)], max_frame_bytes=1000, close=False)
        await receiver.until(lambda: receiver.errors)
        assert [type(error) for error in receiver.errors] == [ConnectionAbortedError]
        assert receiver.frames == []
        server.close()

    in_the_loop_of_the_broker(run)


def test_closing_is_heard_once():
    async def run() -> None:
        receiver = Receiver()
        server, _ = await dialled(receiver, [], close=False)
        assert receiver.transport is not None
        receiver.transport.close()
        receiver.transport.close()
        await receiver.until(lambda: receiver.errors)
        assert len(receiver.errors) == 1
        server.close()

    in_the_loop_of_the_broker(run)


def test_where_nobody_listens_the_dial_fails():
    async def run() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        server.close()
        await server.wait_closed()
        receiver = Receiver()
        Dialer(asyncio.get_running_loop()).dial(host, port, receiver, timeout_ms=5000, max_frame_bytes=1000)
        await receiver.until(lambda: receiver.errors)
        assert receiver.transport is None
        assert len(receiver.errors) == 1

    in_the_loop_of_the_broker(run)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
def test_the_dial_to_a_name_that_is_none_fails(host: str):
    async def story() -> None:
        receiver = Receiver()
        Dialer(asyncio.get_running_loop()).dial(host, 9092, receiver, timeout_ms=5000, max_frame_bytes=100)
        await receiver.until(lambda: receiver.errors)

    in_the_loop_of_the_broker(story)
