"""Dials other brokers: the `Network` seam over the loop's sockets. broker/control/peers.py asks for connections here.

A frame is received into memory of its own, which its receiver may keep: only what came together with the frame before
it is copied once.
"""

from __future__ import annotations

import asyncio
import socket
from hashlib import sha256
from struct import Struct
from typing import cast

from ottla.kernel.seams import Dialled, FileSlice
from ottla.tls.contexts import FollowedContext

_LENGTH = Struct(">i")
_BETWEEN_BYTES = 64 << 10
"""The bytes received at once while the length of the frame under way is not known."""


class Dialer:
    """Opens connections; `stop` gives up those that are not established yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.tls: FollowedContext | None = None
        """The context of TLS, where brokers speak it to one another."""
        self._dials: set[asyncio.Task[None]] = set()

    def dial(self, host: str, port: int, receiver: Dialled, *, timeout_ms: int, max_frame_bytes: int) -> None:
        dial = self._loop.create_task(self._dial(host, port, _Link(receiver, max_frame_bytes), timeout_ms))
        self._dials.add(dial)
        dial.add_done_callback(self._dials.discard)

    async def _dial(self, host: str, port: int, link: _Link, timeout_ms: int) -> None:
        try:
            if self.tls is not None:
                self.tls.follow()
            context = None if self.tls is None else self.tls.context
            opening = self._loop.create_connection(lambda: link, host, port, ssl=context)
            await asyncio.wait_for(opening, timeout_ms / 1000)
        except TimeoutError:
            link.over(TimeoutError(f"no connection to {host}:{port} within {timeout_ms} ms"))
        except OSError as error:
            link.over(error)
        except UnicodeError as fault:  # the name cannot be looked up: the link must be told, too
            link.over(OSError(f"no connection to {host}:{port}: {fault}"))

    def stop(self) -> None:
        for dial in list(self._dials):
            dial.cancel()


class _Link(asyncio.BufferedProtocol):
    """One connection: splits received bytes into frames, and is the `Transport` of frames to send."""

    def __init__(self, receiver: Dialled, max_frame_bytes: int) -> None:
        self._receiver = receiver
        self._max_frame_bytes = max_frame_bytes
        self._transport: asyncio.Transport | None = None
        self._over = False
        self._between = bytearray(_BETWEEN_BYTES)
        self._held = 0
        self._frame: memoryview | None = None
        self._filled = 0

    # Transport

    def send(self, parts: list[bytes | FileSlice]) -> None:
        encoded: list[bytes] = []
        for part in parts:
            if isinstance(part, FileSlice):
                encoded.append(part.read())
                part.release()
            else:
                encoded.append(part)
        if self._transport is not None and not self._over:
            self._transport.writelines(encoded)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
        tls = transport.get_extra_info("ssl_object")
        shown = None if tls is None else tls.getpeercert(binary_form=True)
        self._receiver.connected(self, b"" if shown is None else sha256(shown).digest())

    def connection_lost(self, exc: Exception | None) -> None:
        self.over(exc if isinstance(exc, OSError) else ConnectionResetError("the connection was closed"))

    def over(self, error: OSError) -> None:
        """Tell the receiver, once, that the connection is lost."""
        if not self._over:
            self._over = True
            self.close()
            self._receiver.lost(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return self._frame[self._filled :]
        return memoryview(self._between)[self._held :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._frame is None:
            self._held += nbytes
            self._split()
            return
        self._filled += nbytes
        if self._filled == len(self._frame):
            frame, self._frame = self._frame, None
            self._receiver.received(frame)

    def _split(self) -> None:
        """Hand out the whole frames in the buffer; a longer one goes on in memory of its own."""
        at = 0
        received = memoryview(self._between)
        while self._held - at >= _LENGTH.size and not self._over:
            (size,) = _LENGTH.unpack_from(received, at)
            if not 0 <= size <= self._max_frame_bytes:
                self.over(ConnectionAbortedError(f"an answer of {size} bytes, more than may be"))
                return
            at += _LENGTH.size
            here = min(size, self._held - at)
            frame = memoryview(bytearray(size))
            frame[:here] = received[at : at + here]
            at += here
            if here < size:
                self._frame, self._filled, self._held = frame, here, 0
                return
            self._receiver.received(frame)
        rest = bytes(received[at : self._held])
        self._between[: len(rest)] = rest
        self._held = len(rest)
