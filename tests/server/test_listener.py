"""Connections over real sockets: none hangs for lack of memory, and none stays after its client has left."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
import types
from collections.abc import Callable

import pytest
from tests.ports import free_port

from ottla.access.connection_limits import ConnectionLimits, IpLimits
from ottla.config.connection_limits import ListenerLimits
from ottla.kernel.quotas import CONNECTION_CREATION_RATE, DEFAULT, QuotaEntity
from ottla.server import channel as channel_module
from ottla.server import listener as listener_module
from ottla.server.channel import Channel
from ottla.server.cold_reads import ColdReads
from ottla.server.listener import Listener
from ottla.wire.frame import FramePool

BLOCKS, AT_ONCE, LARGE_ANSWER = 0xFF, 0x01, 0x02
FRAME = bytes([AT_ONCE]) + bytes(120_000)


def _refuses(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address).close()
    except ConnectionRefusedError:
        return True
    return False


class Place:
    """A listener that echoes; a frame that begins with BLOCKS waits, and holds its connection."""

    def __init__(self, *, budget: int = 8 << 20, max_idle_ms: int = 600_000) -> None:
        self.served: list[bytes] = []
        self.waiting: list = []
        self.pool = FramePool(budget)
        loop = asyncio.get_running_loop()
        self.listener = Listener(
            loop,
            name="PLAINTEXT",
            pool=self.pool,
            cold=ColdReads(loop),
            max_frame_bytes=4 << 20,
            limits=ConnectionLimits(ListenerLimits, IpLimits, {"PLAINTEXT": ListenerLimits()}),
            max_idle_ms=max_idle_ms,
        )
        self.address = self.listener.open("127.0.0.1", 0)
        self.refused_before = _refuses(self.address)
        self.listener.start(10, self._serve)

    def _serve(self, connection, frame: memoryview) -> None:
        content = bytes(frame)
        self.served.append(content)
        if content[0] == AT_ONCE:
            if not connection.answer_at_once([framed(content)]):
                connection.answer(connection.expect(), [framed(content)])
        else:
            self.waiting.append((connection, connection.expect(blocks=content[0] == BLOCKS)))

    def answer(self, place: int, data: bytes) -> None:
        connection, exchange = self.waiting.pop(place)
        connection.answer(exchange, [data])

    def half_a_minute_later(self) -> None:
        """Run the sweep as if the starved connections had waited for over 30 s."""
        self.listener._feed_starved(time.monotonic() + 31)

    async def connected(self) -> tuple[socket.socket, Channel]:
        """A client, and the broker's end of its connection."""
        before = set(self.listener.channels)
        client = self.connect()
        await until(lambda: len(self.listener.channels) > len(before))
        (channel,) = set(self.listener.channels) - before
        return client, channel

    async def starving(self) -> tuple[socket.socket, Channel]:
        """A connection whose frame has begun while the memory is used up."""
        client, channel = await self.connected()
        await sent(client, framed(FRAME)[:1000])
        await until(lambda: channel.starved_since)
        return client, channel

    async def slow(self) -> tuple[socket.socket, Channel]:
        """A connection whose frame stops after 128 KiB."""
        client, channel = await self.connected()
        await sent(client, framed(FRAME)[:1000])
        await until(lambda: channel.connection.reader in self.pool.holders)
        return client, channel

    def end(self, *clients: socket.socket) -> None:
        for client in clients:
            client.close()
        self.listener.stop()
        assert self.pool.lent_bytes == 0
        assert self.pool.holders == {}

    def connect(self) -> socket.socket:
        sock = socket.create_connection(self.address)
        sock.setblocking(False)
        return sock


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


async def until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def sent(sock: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(sock, data)


@pytest.fixture
def quick_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_SWEEP_S", 0.05)


def test_a_frame_that_had_to_wait_for_memory_is_served_once_there_is_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_SWEEP_S", 60.0)

    async def run() -> None:
        place = Place(budget=128 << 10)
        lent = place.pool.take(100)
        assert lent is not None
        client = place.connect()
        payload = bytes([AT_ONCE]) + bytes(100_000)
        await sent(client, framed(payload)[:1000])
        await until(lambda: any(channel.connection.paused for channel in place.listener.channels))
        await sent(client, framed(payload)[1000:])
        await asyncio.sleep(0.2)
        assert place.served == []
        place.pool.give(lent)
        await until(lambda: place.served == [payload])
        client.close()
        place.listener.stop()

    asyncio.run(run())


@pytest.mark.usefixtures("quick_sweeps")
def test_frames_that_wait_for_each_others_memory_do_not_do_so_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_STUCK_S", 0.3)

    async def run() -> None:
        place = Place(budget=700 << 10)
        payload = bytes([AT_ONCE]) + bytes(500_000)
        clients = [place.connect() for _ in range(2)]
        for client in clients:
            await sent(client, framed(payload)[:1000])
        await until(lambda: place.pool.lent_bytes == 256 << 10)
        for client in clients:
            client.send(framed(payload)[1000:200_000])
        await until(lambda: all(channel.starved_since for channel in place.listener.channels))
        await until(lambda: len(place.listener.channels) == 1)
        (left,) = place.listener.channels
        for client in clients:
            if client.getsockname()[1] == int(left.connection.name.rpartition(":")[2]):
                await sent(client, framed(payload)[200_000:])
        await until(lambda: place.served == [payload])
        for client in clients:
            client.close()
        place.listener.stop()
        assert place.pool.lent_bytes == 0

    asyncio.run(run())


@pytest.mark.usefixtures("quick_sweeps")
def test_who_drips_its_frame_is_closed_before_who_waits_for_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_STUCK_S", 0.5)

    async def run() -> None:
        place = Place(budget=300 << 10)
        payload = bytes([AT_ONCE]) + bytes(120_000)
        dripping = [place.connect() for _ in range(2)]
        for client in dripping:
            await sent(client, framed(payload)[:1000])
        await until(lambda: place.pool.lent_bytes == 256 << 10)
        honest = place.connect()
        await sent(honest, framed(payload)[:60_000])
        await until(lambda: place.listener.accepted == 3)

        async def drip() -> None:
            while place.served == []:
                for client in dripping:
                    with contextlib.suppress(OSError):
                        client.send(b"\0")
                await asyncio.sleep(0.02)

        dripped = asyncio.ensure_future(drip())
        await until(lambda: len(place.listener.channels) == 2)
        await sent(honest, framed(payload)[60_000:])
        await until(lambda: place.served == [payload])
        await dripped
        assert len(place.listener.channels) == 2
        for client in [honest, *dripping]:
            client.close()
        place.listener.stop()
        assert place.pool.lent_bytes == 0
        assert place.pool.holders == {}

    asyncio.run(run())


def test_who_stops_where_its_buffer_is_full_is_closed_before_who_waits_for_the_memory() -> None:
    async def run() -> None:
        place = Place(budget=200 << 10)
        client, stopped = await place.connected()
        stream = framed(bytes([AT_ONCE]) + bytes(1 << 20))
        await sent(client, stream[:1000])
        await until(lambda: place.pool.lent_bytes == 128 << 10)
        await sent(client, stream[1000 : 128 << 10])
        await until(lambda: stopped.connection.reader._end == 128 << 10)
        honest, _ = await place.starving()
        place.half_a_minute_later()
        assert stopped.connection.closed
        await sent(honest, framed(FRAME)[1000:])
        await until(lambda: place.served == [FRAME])
        place.end(client, honest)

    asyncio.run(run())


def test_who_parks_much_behind_a_request_that_waits_is_closed_before_who_waits_for_the_memory() -> None:
    async def run() -> None:
        place = Place(budget=200 << 10)
        client, parks = await place.connected()
        client.send(framed(bytes([BLOCKS])) + framed(bytes([AT_ONCE]) + bytes(30_000)) * 4)
        await until(lambda: place.pool.lent_bytes > 100_000)
        honest, _ = await place.starving()
        place.half_a_minute_later()
        assert parks.connection.closed
        await sent(honest, framed(FRAME)[1000:])
        await until(lambda: place.served[1:] == [FRAME])
        place.end(client, honest)

    asyncio.run(run())


def test_who_has_sent_all_and_is_held_is_not_closed_where_another_is_slow() -> None:
    async def run() -> None:
        place = Place(budget=300 << 10)
        client, held = await place.connected()
        await sent(client, framed(bytes([BLOCKS])) + framed(FRAME)[:1000])
        await until(lambda: place.pool.lent_bytes == 128 << 10)
        await sent(client, framed(FRAME)[1000:])
        dripping, slow = await place.slow()
        honest, _ = await place.starving()
        place.half_a_minute_later()
        assert slow.connection.closed
        assert not held.connection.closed
        await sent(honest, framed(FRAME)[1000:])
        await until(lambda: place.served[1:] == [FRAME])
        place.answer(0, b"answer")
        await until(lambda: place.served[1:] == [FRAME] * 2)
        place.end(client, dripping, honest)

    asyncio.run(run())


def test_nobody_is_closed_for_one_that_starved_and_has_gone() -> None:
    async def run() -> None:
        place = Place(budget=200 << 10)
        dripping, slow = await place.slow()
        client, starving = await place.starving()
        starved = dict(place.listener.starved)
        starving.close()
        assert place.listener.starved == {}
        place.listener.starved = starved  # as if it ended while others get memory
        place.half_a_minute_later()
        assert not slow.connection.closed
        place.end(client, dripping)

    asyncio.run(run())


def test_nobody_is_closed_for_one_that_starved_and_is_held_by_now() -> None:
    async def run() -> None:
        place = Place(budget=200 << 10)
        dripping, slow = await place.slow()
        client, held = await place.connected()
        await sent(client, framed(bytes([LARGE_ANSWER])) + framed(FRAME)[:1000])
        await until(lambda: held.starved_since)
        place.answer(0, bytes(64 << 20))
        assert held.connection.held
        place.half_a_minute_later()
        assert not slow.connection.closed
        assert not held.connection.closed
        assert held.starved_since is None
        place.end(client, dripping)

    asyncio.run(run())


def test_nobody_is_closed_for_one_that_starved_and_has_got_its_memory() -> None:
    async def run() -> None:
        place = Place(budget=200 << 10)
        dripping, slow = await place.slow()
        client, starved = await place.connected()
        await sent(client, framed(bytes([LARGE_ANSWER])) + framed(FRAME)[:1000])
        await until(lambda: starved.starved_since)
        place.pool.budget_bytes = 300 << 10
        place.answer(0, b"answer")
        await until(lambda: place.pool.lent_bytes == 256 << 10)
        place.half_a_minute_later()
        assert not slow.connection.closed
        assert not starved.connection.closed
        place.end(client, dripping)

    asyncio.run(run())


def test_who_waits_is_closed_where_no_other_has_held_memory_for_long(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        place = Place(budget=200 << 10)
        client, wants_more = await place.connected()
        stream = framed(bytes([AT_ONCE]) + bytes(1 << 20))
        await sent(client, stream[:1000])
        await until(lambda: place.pool.lent_bytes == 128 << 10)
        await sent(client, stream[1000:200_000])
        await until(lambda: wants_more.starved_since)
        place.half_a_minute_later()
        assert wants_more.connection.closed
        lent = place.pool.take(128 << 10)
        assert lent is not None
        other, starving = await place.starving()
        place.half_a_minute_later()
        assert starving.connection.closed
        place.pool.give(lent)
        place.end(client, other)

    asyncio.run(run())
    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "no memory for its request in 30 s; closed"
    ] * 2


def test_a_large_frame_that_ends_while_its_connection_is_held_is_served() -> None:
    async def run() -> None:
        place = Place()
        client = place.connect()
        await sent(client, framed(bytes([LARGE_ANSWER])))
        await until(lambda: place.waiting)
        payload = bytes([AT_ONCE]) + bytes(200_000)
        await sent(client, framed(payload)[:150_000])
        connection = place.waiting[0][0]
        await until(lambda: place.pool.lent_bytes)
        place.answer(0, bytes(64 << 20))
        assert connection.held
        client.send(framed(payload)[150_000:])
        got = 0
        async with asyncio.timeout(120):
            while got < (64 << 20) + len(payload) + 4:
                more = len(await asyncio.get_running_loop().sock_recv(client, 1 << 20))
                assert more, "closed"
                got += more
        assert place.served[1:] == [payload]
        client.close()
        place.listener.stop()

    asyncio.run(run())


def test_who_sends_on_behind_requests_that_wait_is_closed_when_memory_is_short() -> None:
    async def run() -> None:
        place = Place(budget=300 << 10)
        clients = [place.connect() for _ in range(3)]
        for client in clients:
            client.send(framed(bytes([BLOCKS])) + framed(bytes([AT_ONCE]) + bytes(50_000)) * 3)
        await until(lambda: len(place.waiting) == 3 and len(place.listener.channels) == 2)
        assert 0 < place.pool.lent_bytes <= 300 << 10
        while place.waiting:
            place.answer(0, b"answer")
        await until(lambda: len(place.served) == 3 + 2 * 3)
        for client in clients:
            client.close()
        place.listener.stop()
        assert place.pool.lent_bytes == 0

    asyncio.run(run())


def test_a_client_that_goes_during_a_wait_is_seen_to_be_gone() -> None:
    async def run() -> None:
        place = Place()
        client = place.connect()
        await sent(client, framed(bytes([BLOCKS])))
        await until(lambda: place.waiting)
        client.close()
        await until(lambda: not place.listener.channels)
        place.listener.stop()

    asyncio.run(run())


@pytest.mark.usefixtures("quick_sweeps")
def test_a_held_connection_whose_client_went_with_words_unread_is_not_kept_for_ever() -> None:
    async def run() -> None:
        place = Place(max_idle_ms=200)
        client = place.connect()
        await sent(client, framed(bytes([BLOCKS])))
        await until(lambda: place.waiting)
        await sent(client, framed(bytes([AT_ONCE])))
        client.shutdown(socket.SHUT_WR)
        await until(lambda: not place.listener.channels)
        client.close()
        place.listener.stop()

    asyncio.run(run())


@pytest.mark.usefixtures("quick_sweeps")
def test_idle_connections_stay_where_the_longest_idle_time_is_below_0() -> None:
    async def run() -> None:
        place = Place(max_idle_ms=-1)
        client = place.connect()
        await until(lambda: place.listener.channels)
        before = place.pool.now
        await until(lambda: place.pool.now > before)
        assert place.listener.channels
        client.close()
        place.listener.stop()

    asyncio.run(run())


def test_a_connection_is_idle_from_its_last_bytes_on_and_not_from_the_sweep_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    for module in (listener_module, channel_module):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))

    async def run() -> None:
        place = Place(max_idle_ms=1000)
        client = place.connect()
        await until(lambda: place.listener.channels)
        clock[0] = 4.9
        await sent(client, framed(bytes([AT_ONCE])))
        await until(lambda: place.served)
        clock[0] = 5.0
        place.listener._sweep()
        assert place.listener.channels
        clock[0] = 10.0
        place.listener._sweep()
        assert not place.listener.channels
        client.close()
        place.listener.stop()

    asyncio.run(run())


def test_what_is_sent_behind_a_wait_is_served_after_it() -> None:
    async def run() -> None:
        place = Place()
        client = place.connect()
        await sent(client, framed(bytes([BLOCKS])))
        await until(lambda: place.waiting)
        await sent(client, framed(bytes([AT_ONCE])) * 3)
        await asyncio.sleep(0.05)
        assert len(place.served) == 1
        place.answer(0, b"answer")
        await until(lambda: len(place.served) == 4)
        client.close()
        place.listener.stop()

    asyncio.run(run())


def test_connections_are_refused_until_the_broker_can_serve() -> None:
    async def run() -> None:
        place = Place()
        assert place.refused_before
        assert not _refuses(place.address)
        place.listener.stop()

    asyncio.run(run())


def _listener(ips: IpLimits | None = None) -> Listener:
    loop = asyncio.get_running_loop()
    return Listener(
        loop,
        name="PLAINTEXT",
        pool=FramePool(1 << 20),
        cold=ColdReads(loop),
        max_frame_bytes=1 << 20,
        limits=ConnectionLimits(ListenerLimits, lambda: ips or IpLimits(), {"PLAINTEXT": ListenerLimits()}),
        max_idle_ms=1000,
    )


def test_a_port_that_another_broker_has_bound_is_taken_before_that_one_listens() -> None:
    async def run() -> None:
        first, second = _listener(), _listener()
        address = first.open("127.0.0.1", 0)
        with pytest.raises(OSError, match="in use"):
            second.open(*address)
        first.start(10, lambda *_: None)
        first.stop()

    asyncio.run(run())


def test_connections_of_an_earlier_process_do_not_keep_a_port_and_it_is_still_given_to_one_broker() -> None:
    async def run() -> None:
        earlier, first, second = _listener(), _listener(), _listener()
        address = earlier.open("127.0.0.1", free_port())
        earlier.start(10, lambda *_: None)
        with socket.create_connection(address) as client:
            await until(lambda: earlier.channels)
            earlier.stop()
            assert client.recv(1) == b""  # the broker's end waits for the client's, which still is open
            assert first.open(*address) == address
            with pytest.raises(OSError, match="in use"):
                second.open(*address)
            first.start(10, lambda *_: None)
            assert not _refuses(address)
        first.stop()

    asyncio.run(run())


def test_connections_that_are_closed_later_leave_descriptors_to_the_logs_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener_module.resource, "getrlimit", lambda _: (8, 8))

    async def run() -> None:
        listener = _listener(IpLimits(quotas={QuotaEntity(ip=DEFAULT): {CONNECTION_CREATION_RATE: 0}}))
        address = listener.open("127.0.0.1", 0)
        listener.start(10, lambda *_: None)
        clients = [socket.create_connection(address) for _ in range(3)]
        await until(lambda: "the remaining file descriptors are for the logs" in caplog.text)
        assert caplog.text.count("refused by connection_creation_rate") == 2
        listener.stop()
        for client in clients:
            client.close()

    asyncio.run(run())
