"""`kernel.seams.Network` in the simulated world: connections of one incarnation of a broker to the others.

machine.py gives one to each incarnation. Connections are those of network.py: the other broker's end is the real
server's, and hosts that are blocked there are blocked here too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.kernel.seams import Dialled, FileSlice
from ottla.sim.loop import SimLoop
from ottla.sim.network import Network, Wire

if TYPE_CHECKING:
    from ottla.sim.machine import MachineRun

_LENGTH = struct.Struct(">i")
Guard = Callable[[Callable[[], None]], Callable[[], None]]
Find = Callable[[str, int], "MachineRun | None"]


class Dialler:
    """Connects to the broker that serves at an address."""

    def __init__(self, loop: SimLoop, network: Network, host: str, find: Find, guard: Guard) -> None:
        self._loop = loop
        self._network = network
        self._host = host
        self._find = find
        self.guard = guard
        self.open: dict[Connection, None] = {}

    def dial(self, host: str, port: int, receiver: Dialled, *, timeout_ms: int, max_frame_bytes: int) -> None:
        """Dial as the seam describes: success or failure is reported later."""
        network = self._network
        if network.is_blocked(self._host, host) or network.is_blocked(host, self._host):
            late = TimeoutError(f"{host}:{port} does not answer")
            self._loop.call_after_us(timeout_ms * 1000, self.guard(lambda: receiver.lost(late)))
            return

        def arrive() -> None:
            server = self._find(host, port)
            if server is None or network.is_refused(self._host, host):
                refused = ConnectionRefusedError(f"nobody listens at {host}:{port}")
                self._loop.call_after_us(network.way_us(), self.guard(lambda: receiver.lost(refused)))
                return
            connection = Connection(self, receiver, max_frame_bytes)
            self.open[connection] = None
            connection.wire = network.connect(server, connection, f"{self._host}>{host}", host=self._host)
            self._loop.call_after_us(network.way_us(), self.guard(connection.established))

        self._loop.call_after_us(network.way_us(), self.guard(arrive))

    def vanish(self) -> None:
        """End the process: the others see its connections close."""
        for connection in list(self.open):
            connection.wire.close()
        self.open.clear()


class Connection:
    """The dialling end of one connection: `network.ClientEnd` to the wire, `seams.Transport` to the receiver."""

    wire: Wire

    def __init__(self, dialler: Dialler, receiver: Dialled, max_frame_bytes: int) -> None:
        self._dialler = dialler
        self._receiver = receiver
        self._max_frame_bytes = max_frame_bytes
        self._inbox = bytearray()
        self._over = False
        self._take_guarded = dialler.guard(self._take)

    def established(self) -> None:
        if not self._over:
            self._receiver.connected(self)

    # Transport

    def send(self, parts: list[bytes | FileSlice]) -> None:
        out = bytearray()
        for part in parts:
            if isinstance(part, FileSlice):
                out += part.read()
                part.release()
            else:
                out += part
        if not self._over:
            self.wire.write(bytes(out))

    def close(self) -> None:
        if not self._over:
            self.wire.close()
            self._end(ConnectionAbortedError("closed here"))

    # ClientEnd

    def on_bytes(self, piece: bytes) -> None:
        self._inbox += piece
        self._take_guarded()

    def on_lost(self) -> None:
        self._dialler.guard(lambda: self._end(ConnectionResetError("closed by the other side")))()

    def _take(self) -> None:
        while not self._over and len(self._inbox) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._inbox)
            if not 0 <= length <= self._max_frame_bytes:
                self.wire.close()
                self._end(ConnectionAbortedError(f"an answer of {length} bytes"))
                return
            if len(self._inbox) < _LENGTH.size + length:
                return
            frame = bytes(self._inbox[_LENGTH.size : _LENGTH.size + length])
            del self._inbox[: _LENGTH.size + length]
            self._receiver.received(memoryview(frame))

    def _end(self, error: OSError) -> None:
        if not self._over:
            self._over = True
            self._dialler.open.pop(self, None)
            self._receiver.lost(error)
