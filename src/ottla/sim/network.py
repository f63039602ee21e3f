"""The network in virtual time: connections that carry bytes in order, in pieces, late, and until somebody cuts them.

The broker's end feeds the real `wire/connection.ServerConnection` as server/listener.py does, over one receive buffer
that is filled with 0xDD as soon as dispatch returns: code that still holds a frame then reads rubbish (rule E4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Protocol

from ottla.access.names import ANONYMOUS
from ottla.kernel.seams import Clock, FileSlice
from ottla.sim.loop import SimLoop
from ottla.wire.connection import Part, ServerConnection, release
from ottla.wire.frame import FramePool, FrameReader, FrameTooLarge

SHARED_BYTES = 128 << 10
_POISON = bytes([0xDD]) * SHARED_BYTES
_STARVED_MS = 50
_SPLIT_SHARE = 0.1
_SENT_AGAIN_US = 200_000
"""TCP's first retransmission time; it doubles each time."""
_SENT_AGAIN_AT_LAST_US = 1_600_000
CLIENTS = "clients"
"""The host that all clients run on."""

Guard = Callable[[Callable[[], None]], Callable[[], None]]


class PoisonedPool(FramePool):
    """Buffers of large frames; a returned buffer is overwritten at once."""

    def give(self, buffer: bytearray) -> None:
        buffer[:] = bytes([0xDD]) * len(buffer)
        super().give(buffer)


class ClientEnd(Protocol):
    """The end of a connection that dialled."""

    def on_bytes(self, piece: bytes) -> None: ...

    def on_lost(self) -> None:
        """The connection was lost; called once, unless the client closed it itself."""


class Server(Protocol):
    """A broker that takes connections: one incarnation of it."""

    shared: memoryview
    max_frame_bytes: int
    address: tuple[str, int]

    @property
    def clock(self) -> Clock: ...

    @property
    def pool(self) -> FramePool: ...

    def serve(self, connection: ServerConnection, frame: memoryview) -> None: ...

    def ask_who(self, connection: ServerConnection) -> None:
        """Begin a login: the connection belongs to nobody until it is done."""

    def guard(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Wrap a callback that must not run once this incarnation is gone."""

    def joined(self, end: ServerEnd) -> None: ...

    def left(self, end: ServerEnd) -> None: ...


class Network:
    """All connections; the transit time of each piece of bytes is drawn from the seed."""

    def __init__(self, loop: SimLoop, seed: int, delay_us: tuple[int, int]) -> None:
        self.loop = loop
        self.random = Random(f"network-{seed}")
        self.delay_us = delay_us
        self.loss = 0.0
        """The share of pieces that are lost and sent again after a while; later pieces wait for them."""
        self.wires: dict[Wire, None] = {}
        self.opened = 0
        self.cuts = 0
        self.on_request: Callable[[Wire, bytes], None] | None = None
        """Called with each request before it is sent."""
        self._blocked: dict[tuple[str, str], None] = {}
        self._refused: dict[tuple[str, str], None] = {}
        self.holding: dict[Wire, None] = {}
        """Connections with pieces that wait for the end of a cut."""

    def way_us(self) -> int:
        way_us, again_us = self.random.randint(*self.delay_us), _SENT_AGAIN_US
        while self.loss and again_us <= _SENT_AGAIN_AT_LAST_US and self.random.random() < self.loss:
            way_us += again_us
            again_us *= 2
        return way_us

    def connect(
        self, server: Server, client: ClientEnd, name: str, *, host: str = CLIENTS, principal: str | None = ANONYMOUS
    ) -> Wire:
        """Open a connection from a program on `host`, which the server takes for the principal's.

        None: the program must log in.
        """
        self.opened += 1
        wire = Wire(self, server, client, f"{name}-{self.opened}", (host, server.address[0]))
        assert wire.server is not None
        if principal is None:
            server.ask_who(wire.server.connection)
        else:
            wire.server.connection.principal = principal
        return wire

    def block(self, sender: str, receiver: str) -> None:
        """Drop packets from one host to another from now on; the other direction is not affected."""
        self._blocked[sender, receiver] = None

    def unblock(self, sender: str, receiver: str) -> None:
        """Deliver the packets that were held back meanwhile, on the connections that still exist."""
        self._blocked.pop((sender, receiver), None)
        holding, self.holding = self.holding, {}
        for wire in holding:
            wire.go_on()

    def unblock_all(self) -> None:
        for sender, receiver in list(self._blocked):
            self.unblock(sender, receiver)

    def is_blocked(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) in self._blocked

    def refuse(self, sender: str, receiver: str) -> None:
        """Act as a firewall: cut connections from one host to another, and refuse new ones."""
        self._refused[sender, receiver] = None
        for wire in [wire for wire in self.wires if wire.hosts == (sender, receiver)]:
            wire.cut()

    def admit(self, sender: str, receiver: str) -> None:
        self._refused.pop((sender, receiver), None)

    def admit_all(self) -> None:
        self._refused.clear()

    def is_refused(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) in self._refused

    def stall_some(self, share: float) -> list[Wire]:
        """Stall the bytes to the server on some connections; the others go on."""
        chosen = [wire for wire in self.wires if self.random.random() < share]
        for wire in chosen:
            wire.stalled = True
        return chosen

    def cut_some(self, share: float) -> int:
        """Cut some connections; return their number."""
        chosen = [wire for wire in self.wires if self.random.random() < share]
        for wire in chosen:
            wire.cut()
        self.cuts += len(chosen)
        return len(chosen)


class Wire:
    """One connection with both ends."""

    def __init__(self, network: Network, server: Server, client: ClientEnd, name: str, hosts: tuple[str, str]) -> None:
        """`hosts`: the client's and the server's."""
        self._network = network
        self.hosts = hosts
        self._ways = (hosts, (hosts[1], hosts[0]))
        self._held: tuple[deque[Callable[[], None]], deque[Callable[[], None]]] = (deque(), deque())
        self._client: ClientEnd | None = client
        self._arrive_us = [0, 0]
        self.stalled = False
        """True while nothing reaches the server, not even the client's close."""
        network.wires[self] = None
        self.server: ServerEnd | None = ServerEnd(self, server, name)

    # the client's end

    def write(self, data: bytes) -> None:
        """Send one request from the client to the broker."""
        if self._network.on_request is not None:
            self._network.on_request(self, data)
        self._carry(data, 0, self._at_server)

    def close(self) -> None:
        """Close from the client's side; the broker learns of it later."""
        self._client = None
        self._network.wires.pop(self, None)
        server = self.server
        if server is not None:
            self._later(0, server.guarded_close)

    # the broker's end

    def answer(self, data: bytes) -> None:
        """Send from the broker to the client."""
        self._carry(data, 1, self._at_client)

    def server_closed(self) -> None:
        """Close from the broker's side, also by its end: the client learns of it after the bytes under way."""
        self.server = None
        self._network.wires.pop(self, None)
        self._later(1, self._lost)

    def cut(self) -> None:
        """Cut the connection: bytes under way are lost, and each end learns of it at its own time."""
        client, self._client = self._client, None
        server, self.server = self.server, None
        self._network.wires.pop(self, None)
        if client is not None:
            self._network.loop.call_after_us(self._network.way_us(), client.on_lost)
        if server is not None:
            self._network.loop.call_after_us(self._network.way_us(), server.guarded_close)

    # under way

    def _carry(self, data: bytes, direction: int, arrive: Callable[[bytes], None]) -> None:
        random = self._network.random
        if len(data) > 1 and random.random() < _SPLIT_SHARE:
            at = random.randint(1, len(data) - 1)
            self._later(direction, partial(arrive, data[:at]))
            data = data[at:]
        self._later(direction, partial(arrive, data))

    def _later(self, direction: int, callback: Callable[[], None]) -> None:
        """Deliver in order; a piece that cannot pass is sent again until it can."""
        stalled = self.stalled and direction == 0
        if stalled or self._held[direction] or self._network.is_blocked(*self._ways[direction]):
            self._held[direction].append(callback)
            self._network.holding[self] = None
            return
        loop = self._network.loop
        at_us = max(loop.now_us + self._network.way_us(), self._arrive_us[direction] + 1)
        self._arrive_us[direction] = at_us
        loop.call_after_us(at_us - loop.now_us, callback)

    def go_on(self) -> None:
        """Send again the held pieces, as a cut or a stall may be over."""
        for direction, held in enumerate(self._held):
            waiting = list(held)
            held.clear()
            for callback in waiting:
                self._later(direction, callback)

    def _at_server(self, piece: bytes) -> None:
        if self.server is not None:
            self.server.arrive(piece)

    def _at_client(self, piece: bytes) -> None:
        if self._client is not None:
            self._client.on_bytes(piece)

    def _lost(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.on_lost()


class SimTransport:
    """`kernel.seams.Transport`: parts are sent later, and slices are read only then, as by sendfile."""

    def __init__(self, end: ServerEnd, network: Network) -> None:
        self._end = end
        self._network = network
        self._queue: deque[Part] = deque()
        self._corked = False
        self._flushing = False
        self._closed = False
        self.unsent_bytes = 0

    def send(self, parts: list[bytes | FileSlice]) -> None:
        if self._closed:
            release(parts)
            return
        self._queue.extend(parts)
        self.unsent_bytes += sum(_size(part) for part in parts)
        self._flush_later()

    def cork(self) -> None:
        self._corked = True

    def uncork(self) -> None:
        self._corked = False
        self._flush_later()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            release(list(self._queue))
            self._queue.clear()
            self._end.transport_closed()

    def _flush_later(self) -> None:
        if self._queue and not self._flushing and not self._corked and not self._closed:
            self._flushing = True
            delay_us = self._network.random.randint(0, 50)
            self._network.loop.call_after_us(delay_us, self._end.guard(self._flush))

    def _flush(self) -> None:
        self._flushing = False
        if self._closed:
            return
        out = bytearray()
        try:
            while self._queue:
                part = self._queue[0]
                if isinstance(part, FileSlice):
                    piece = part.read()
                    if len(piece) < part.length:
                        raise OSError("a file ended before its slice did")  # the connection closes (rule B5)
                    self._queue.popleft()
                    part.release()
                    out += piece
                else:
                    self._queue.popleft()
                    out += part
        except OSError:
            self._end.connection.close()
            return
        held, self.unsent_bytes = self.unsent_bytes, 0
        self._end.wire.answer(bytes(out))
        if held:
            self._end.connection.drained()


class ServerEnd:
    """The broker's end, as server/listener.py's Channel is for a socket."""

    def __init__(self, wire: Wire, server: Server, name: str) -> None:
        self.wire = wire
        self.guard = server.guard
        self._server = server
        self._network = wire._network
        self._inbox = bytearray()
        self._resuming = False
        self._reader = FrameReader(server.shared, server.pool, server.max_frame_bytes)
        self.connection = ServerConnection(
            self._reader,
            SimTransport(self, self._network),
            server.serve,
            name=name,
            peer_host="10.0.0.9",
            local_address=server.address,
            listener="PLAINTEXT",
        )
        self.connection.resume = self._resume_soon
        self.guarded_close = server.guard(self.connection.close)
        self._read_guarded = server.guard(self._read)
        server.joined(self)

    def arrive(self, piece: bytes) -> None:
        self._inbox += piece
        self._read_guarded()

    def transport_closed(self) -> None:
        self._server.left(self)
        self.wire.server_closed()

    def _read(self) -> None:
        connection, reader = self.connection, self._reader
        while self._inbox and not connection.closed and not connection.paused:
            target = reader.target()
            if target is None:
                self._server.clock.call_later(_STARVED_MS, self._resume)
                return
            count = min(len(target), len(self._inbox))
            target[:count] = self._inbox[:count]
            del self._inbox[:count]
            reader.received(count)
            self._run()

    def _run(self) -> None:
        try:
            self.connection.run()
        except FrameTooLarge:
            self.connection.close()
        shared = self._server.shared
        shared[:] = _POISON[: len(shared)]

    def _resume_soon(self) -> None:
        if not self._resuming:
            self._resuming = True
            self._server.clock.call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        connection = self.connection
        if connection.closed or connection.held:
            return
        connection.paused = False
        if self._reader.parked_whole_frames:
            self._run()
        if not connection.closed and not connection.paused:
            self._read()


def _size(part: Part) -> int:
    return part.length if isinstance(part, FileSlice) else len(part)
