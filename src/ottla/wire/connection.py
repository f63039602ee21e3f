"""One client's connection without its socket: frames in, answers out in the order of the requests.

The listener feeds it, dispatch serves each frame. This module decides when reading stops and in which order answers
leave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.kernel.seams import FileSlice, Transport
from ottla.wire.frame import FrameReader
from ottla.wire.hot_shape import ProduceShape

Part = bytes | FileSlice

MAX_IN_FLIGHT = 1000
"""The most requests of one connection that may wait for their answers (docs/decisions/0011-backpressure.md)."""
FRAMES_A_TURN = 256
"""The most requests of one connection that are served before others get their turn of the loop."""
BYTES_A_TURN = 128 << 10
"""The bytes of answers to them after which the turn ends, too."""


class Corkable(Transport, Protocol):
    """A transport that can be told that more will be sent in this turn."""

    unsent_bytes: int

    def cork(self) -> None: ...

    def uncork(self) -> None: ...


class Proof(Protocol):
    """The steps by which another broker proves itself; `proven` is (broker, its epoch) once they are done."""

    proven: tuple[BrokerId, BrokerEpoch] | None

    async def step(self, data: bytes) -> bytes: ...


class ConnectionState(Enum):
    """The requests that may still begin. A state changes to one below it; the first three may change back."""

    SERVING = "serving"
    """Every request begins as it comes."""
    BLOCKED = "blocked"
    """No request begins for now (`expect` with `blocks`, and back with `unblock` or the `answer`)."""
    MUTED = "muted"
    """No request begins for a time, as the client is over a quota (`mute`, and back with `unmute`)."""
    ENDING = "ending"
    """No request begins any more; the connection closes once the answers have left (`close_after_answer`)."""
    CLOSED = "closed"
    """The connection is closed for good (`close`)."""


SERVING, BLOCKED, MUTED, ENDING, CLOSED = (
    ConnectionState  # python -m bench.hot_path: an attribute of an enum costs a look-up more
)


class Exchange:
    """The place of one answer among the answers of its connection."""

    __slots__ = ("blocks", "parts")

    def __init__(self, *, blocks: bool) -> None:
        self.parts: list[Part] | None = None
        self.blocks = blocks


class ServerConnection:
    """`serve(connection, frame)` is called for each request; it answers through `answer`, now or later."""

    def __init__(
        self,
        reader: FrameReader,
        transport: Corkable,
        serve: Callable[[ServerConnection, memoryview], None],
        *,
        name: str,
        peer_host: str,
        local_address: tuple[str, int],
        listener: str,
    ) -> None:
        self.reader = reader
        self.transport = transport
        self.name = name
        self.peer_host = peer_host
        self.local_address = local_address
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.client_id: str | None = None
        self.client_id_raw = b""
        self.produce_shape: ProduceShape | None = None
        """The shape of the last Produce on this connection."""
        self.peer: BrokerId | None = None
        """The broker of the cluster that has proved itself at the other end, and its incarnation."""
        self.peer_epoch: BrokerEpoch | None = None
        self.proof: Proof | None = None
        self.login: Any = None
        """The way of this connection to its principal (`access.login.Login`); None on a listener without SASL."""
        self.proven: Callable[[], None] = _nothing
        """Set by the listener: called when the login is done."""
        self.software_name = ""
        self.software_version = ""
        self.state = SERVING
        self.on_close: list[Callable[[], None]] = []
        self.resume: Callable[[], None] = _nothing
        """Set by the listener: called when reading may go on."""
        self.paused = False
        """True while the listener does not read: the connection is held, memory is short, or others have their turn."""
        self._serve = serve
        self._mutes = 0
        """The reasons to stay muted that have not ended yet."""
        self._waiting: deque[Exchange] = deque()

    def run(self) -> None:
        """Serve the whole frames received so far; stops where a request must be answered before the next begins.

        One turn serves at most FRAMES_A_TURN requests and BYTES_A_TURN bytes of answers; then other connections have
        theirs.
        """
        transport, reader, serve = self.transport, self.reader, self._serve
        left, most = FRAMES_A_TURN, transport.unsent_bytes + BYTES_A_TURN
        transport.cork()
        try:
            while left and not self.held and transport.unsent_bytes < most:
                frame = reader.next()
                if frame is None:
                    break
                serve(self, frame)
                left -= 1
            else:
                left = 0
        finally:
            transport.uncork()  # this sends, and so may end the hold
        if self.state is not CLOSED:
            self.paused = not reader.park() or self.held
            if not left and not self.held:
                self.paused = True
                self.resume()

    @property
    def closed(self) -> bool:
        return self.state is CLOSED

    @property
    def held(self) -> bool:
        """True while no further request may begin."""
        return self.state is not SERVING or len(self._waiting) >= MAX_IN_FLIGHT or self.transport.unsent_bytes > 1 << 20

    def expect(self, *, blocks: bool = False) -> Exchange:
        """Keep a place for the answer of the request at hand; with `blocks` no further one begins before `unblock`."""
        exchange = Exchange(blocks=blocks)
        self._waiting.append(exchange)
        if blocks and self.state is SERVING:
            self.state = BLOCKED
        return exchange

    def unblock(self, exchange: Exchange) -> None:
        """Let later requests begin, although this one is not answered yet."""
        exchange.blocks = False
        if self.state is BLOCKED:
            self.state = SERVING
            if self.paused and not self.held:
                self.resume()

    def mute(self) -> None:
        """Let no further request begin before `unmute`; requests that have begun are answered (KIP-219)."""
        self._mutes += 1
        if self.state is SERVING or self.state is BLOCKED:
            self.state = MUTED

    def unmute(self) -> None:
        """Take one `mute` back."""
        self._mutes -= 1
        if self._mutes or self.state is not MUTED:
            return
        self.state = BLOCKED if any(exchange.blocks for exchange in self._waiting) else SERVING
        if self.paused and not self.held:
            self.resume()

    def answer(self, exchange: Exchange, parts: list[Part]) -> None:
        """Fill a place; all answers that are next in order leave. No parts: the request wants no answer."""
        if self.state is CLOSED:
            release(parts)
            return
        exchange.parts = parts
        waiting = self._waiting
        if waiting[0] is not exchange:
            if exchange.blocks:
                self.unblock(exchange)
            return
        if exchange.blocks and self.state is BLOCKED:
            self.state = SERVING
        send = self.transport.send
        while waiting:
            ready = waiting[0].parts
            if ready is None:
                break
            waiting.popleft()
            if ready:
                send(ready)
        if self.paused and not self.held:
            self.resume()

    def answer_at_once(self, parts: list[Part]) -> bool:
        """Answer a request that never waited, without a place of its own; False if earlier answers are due."""
        if self._waiting:
            return False
        self.transport.send(parts)
        return True

    def drained(self) -> None:
        """Go on, as the transport has sent its parts."""
        if self.state is ENDING:
            self.close()
        elif self.paused and not self.held:
            self.resume()

    def close_after_answer(self) -> None:
        """Serve no further request; close once the answer to the one at hand has left."""
        if self.state is not CLOSED:
            self.state = ENDING

    def close(self) -> None:
        """Note that the connection is gone: later answers are dropped, with their slices."""
        if self.state is CLOSED:
            return
        self.state = CLOSED
        for exchange in self._waiting:
            if exchange.parts:
                release(exchange.parts)
        self._waiting.clear()
        self.reader.close()
        self.transport.close()
        for listener in self.on_close:
            listener()
        self.on_close.clear()
        self.resume = self.proven = _nothing  # with the channel in them it would wait for the garbage collector


def release(parts: list[Part]) -> None:
    """Release the slices of an answer that is not sent."""
    for part in parts:
        if part.__class__ is FileSlice:
            part.release()


def _nothing() -> None:
    pass
