"""The sending half of a socket: stalled clients are closed, and cold pages do not block the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.kernel.seams import FileSlice, OpenFile
from ottla.server import transport as transport_module
from ottla.server.transport import SocketTransport
from ottla.storage.disk.local import LocalDisk


class Cold:
    """Pages that are never in memory; it keeps the `arrived` callback of each read, and its end."""

    def __init__(self) -> None:
        self.arrived: list[Callable[[int, bool], None]] = []
        self.ends: list[int] = []

    def warm(self, descriptor: int, position: int, length: int, arrived) -> None:
        self.arrived.append(arrived)
        self.ends.append(position + length)


class End:
    """A transport over one end of a socket pair."""

    def __init__(self, *, cold: Cold | None = None) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.drained = self.broken = 0
        self.transport = SocketTransport(asyncio.get_running_loop(), ours, cold, self._drained, self._broken)

    def _drained(self) -> None:
        self.drained += 1

    def _broken(self) -> None:
        self.broken += 1
        self.transport.close()

    def read(self) -> int:
        try:
            return len(self.peer.recv(1 << 20))
        except BlockingIOError:
            return 0


class Pages:
    """Says of all pages of files whether they are in memory."""

    def __init__(self) -> None:
        self.warm = False


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Pages:
    told = Pages()
    monkeypatch.setattr(transport_module, "is_warm", lambda descriptor, position, length: told.warm)
    return told


def a_file(folder: Path, content: bytes) -> OpenFile:
    """An open file with this content."""
    (folder / "file").write_bytes(content)
    return LocalDisk().open(str(folder / "file"))


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_client_that_reads_a_little_and_then_nothing_is_stuck_again() -> None:
    async def run() -> None:
        end = End()
        end.transport.send([bytes(8 << 20)])
        await turns()
        assert end.transport.stuck_since is not None
        assert end.read()
        await turns()
        assert end.transport.unsent_bytes
        assert end.transport.stuck_since is not None
        end.transport.close()

    asyncio.run(run())


@pytest.mark.parametrize("seen_warm_after", [True, False])
def test_a_cold_piece_is_read_once_while_the_socket_could_take_more(
    seen_warm_after: bool, tmp_path: Path, pages: Pages
) -> None:
    """Pages that are evicted at once, or cannot be read, must not keep the thread busy for ever."""

    async def run() -> None:
        cold = Cold()
        end = End(cold=cold)
        file = a_file(tmp_path, bytes(1 << 20))
        end.transport.send([bytes(4 << 20), FileSlice(file, 0, 20_000)])
        file.release()
        got = 0
        for _ in range(200):
            got += end.read()
            await turns(2)
        assert len(cold.arrived) == 1, "asked again while the first reading is under way"
        pages.warm = seen_warm_after
        cold.arrived[0](cold.ends[0], True)
        for _ in range(20):
            got += end.read()
            await turns(2)
        assert (got, len(cold.arrived)) == ((4 << 20) + 20_000, 1)
        assert file.fileno() < 0
        end.transport.close()

    asyncio.run(run())


def test_what_has_been_read_of_a_piece_leaves_while_the_rest_is_read(tmp_path: Path, pages: Pages) -> None:
    content = os.urandom(100_000)

    async def run() -> None:
        cold = Cold()
        end = End(cold=cold)
        file = a_file(tmp_path, content)
        end.transport.send([FileSlice(file, 0, 100_000)])
        file.release()
        await turns()
        arrived = cold.arrived[0]
        arrived(30_000, False)
        await turns()
        assert end.peer.recv(1 << 20) == content[:30_000]
        end.transport.send([b"the next answer"])
        await turns()
        assert end.read() == 0, "nothing overtakes the rest"
        arrived(100_000, True)
        await turns()
        assert end.peer.recv(1 << 20) == content[30_000:] + b"the next answer"
        assert len(cold.arrived) == 1, "no byte was read twice"
        end.transport.close()

    asyncio.run(run())


def test_a_file_stays_open_until_its_last_step_is_read_though_the_connection_closed(
    tmp_path: Path, pages: Pages
) -> None:

    async def run() -> None:
        cold = Cold()
        end = End(cold=cold)
        file = a_file(tmp_path, bytes(100_000))
        end.transport.send([FileSlice(file, 0, 100_000)])
        file.release()
        await turns()
        cold.arrived[0](30_000, False)
        end.transport.close()
        assert file.fileno() >= 0, "a thread still reads it"
        cold.arrived[0](60_000, False)
        assert file.fileno() >= 0
        cold.arrived[0](100_000, True)
        assert file.fileno() < 0

    asyncio.run(run())


def test_a_small_slice_that_was_read_says_nothing_of_the_pages_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: Pages
) -> None:
    """It is copied, not sent by itself: the next slice, of another file, may lie at a lower position."""
    read_warm = transport_module.read_warm
    monkeypatch.setattr(transport_module, "read_warm", lambda descriptor, position, length: None)

    async def run() -> None:
        cold = Cold()
        end = End(cold=cold)
        file = a_file(tmp_path, bytes(100_000))
        file.hold()
        end.transport.send([FileSlice(file, 90_000, 5000), FileSlice(file, 10_000, 50_000)])
        await turns()
        monkeypatch.setattr(transport_module, "read_warm", read_warm)
        cold.arrived[0](95_000, True)
        await turns()
        assert end.read() == 5000
        assert cold.ends == [95_000, 60_000], "the loop would wait for the disk"
        cold.arrived[1](60_000, True)
        await turns()
        assert end.read() == 50_000
        end.transport.close()

    asyncio.run(run())


def test_pages_that_were_read_while_the_socket_was_full_are_looked_at_again(tmp_path: Path, pages: Pages) -> None:
    """A slow peer may take so long that they have left the cache."""

    async def run() -> None:
        cold = Cold()
        end = End(cold=cold)
        file = a_file(tmp_path, bytes(1 << 20))
        end.transport.send([FileSlice(file, 0, 1 << 20)])
        file.release()
        await turns()
        cold.arrived[0]((1 << 20) - 1, False)
        assert end.transport.stuck_since is not None, "more than the socket takes"
        cold.arrived[0](1 << 20, True)
        got = end.read()
        await turns()
        assert len(cold.ends) == 2, "the loop may wait for the disk"
        assert end.transport.unsent_bytes == (1 << 20) - got
        end.transport.close()
        cold.arrived[1](1 << 20, True)

    asyncio.run(run())


def test_a_peer_that_waits_for_the_disk_is_not_stuck(tmp_path: Path, pages: Pages) -> None:
    pages.warm = True

    async def run() -> None:
        cold = Cold()
        end = End(cold=cold)
        file = a_file(tmp_path, bytes(4 << 20))
        end.transport.send([FileSlice(file, 0, 4 << 20)])
        file.release()
        await turns()
        assert end.transport.stuck_since is not None
        pages.warm = False  # they left the cache while the peer took its time
        while not cold.arrived:
            end.read()
            await turns()
        assert end.transport.stuck_since is None
        end.transport.close()
        cold.arrived[0](4 << 20, True)

    asyncio.run(run())


@pytest.mark.parametrize(("there", "wanted"), [(0, 6000), (5000, 6000), (0, 20_000), (5000, 20_000), (15_000, 20_000)])
def test_b5_a_slice_that_ends_before_it_should_closes_the_connection(there: int, wanted: int, tmp_path: Path) -> None:
    """Later bytes would be read in place of the missing ones."""

    async def run() -> None:
        end = End()
        file = a_file(tmp_path, b"x" * there)
        end.transport.send([b"head", FileSlice(file, 0, wanted), b"the next answer"])
        file.release()
        got = b""
        for _ in range(50):
            await turns(2)
            with contextlib.suppress(BlockingIOError):
                got += end.peer.recv(1 << 20)
        assert end.broken == 1
        assert got == (b"head" + b"x" * there)
        assert end.peer.recv(1) == b"", "the connection is closed"
        assert file.fileno() < 0, "and the file let go"

    asyncio.run(run())


def test_small_slices_leave_with_what_is_around_them_and_large_ones_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(at * 7 % 251 for at in range(100_000))
    by_themselves: list[int] = []
    sendfile = os.sendfile

    def counted(out: int, descriptor: int, position: int, count: int) -> int:
        by_themselves.append(count)
        return sendfile(out, descriptor, position, count)

    monkeypatch.setattr(os, "sendfile", counted)

    async def run() -> None:
        end = End()
        end.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that it is sent in many pieces
        file = a_file(tmp_path, content)
        parts: list[bytes | FileSlice] = []
        expected = b""
        for number in range(300):
            length = 30_000 if number == 150 else number
            parts += [b"head %d " % number, FileSlice(file, number, length)] if length else [b"head"]
            expected += (b"head %d " % number if length else b"head") + content[number : number + length]
        file.release()
        end.transport.send(parts)
        got = b""
        while len(got) < len(expected):
            await turns(2)
            with contextlib.suppress(BlockingIOError):
                got += end.peer.recv(5000)
        assert got == expected
        assert by_themselves[0] == 30_000, "the rest of it, as often as it takes, and of no other"
        assert sorted(by_themselves, reverse=True) == by_themselves
        assert file.fileno() < 0, "every slice was let go"
        assert end.transport.unsent_bytes == 0
        end.transport.close()

    asyncio.run(run())
