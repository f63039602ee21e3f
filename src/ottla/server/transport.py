"""The sending half of a socket: bytes by sendmsg, file slices by sendfile, in order, never blocking the loop.

wire/connection.py puts parts in; all answers of one read leave together once the connection uncorks.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable

from ottla.kernel.seams import FileSlice
from ottla.server.cold_reads import PIECE_BYTES, ColdReads, is_warm, read_warm
from ottla.server.tls_socket import TlsSocket

Part = bytes | FileSlice
_MOST_PARTS = 64
_SMALL_BYTES = 8 << 10
"""The largest slice that is copied and sent with the bytes around it: one call for many (bench/many_replicas.py)."""
_TURN_BYTES = 4 << 20
"""The most file data that a connection sends in one turn of the loop."""
_MORE = getattr(socket, "MSG_MORE", 0)


class SocketTransport:
    """`kernel.seams.Transport` over one non-blocking socket."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket | TlsSocket,
        cold: ColdReads,
        on_drained: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._tls = sock if isinstance(sock, TlsSocket) else None
        self._cold = cold
        self._on_drained = on_drained
        self._on_broken = on_broken
        self._queue: deque[Part] = deque()
        self._slice_sent = 0
        self._corked = False
        self._flushing = False
        self._writing = False
        self._warming = False
        self._starved = False
        self._warm_until = 0
        self._closed = False
        self.unsent_bytes = 0
        self.stuck_since: float | None = None
        """The monotonic time in seconds since which the peer has taken none of the waiting bytes."""

    def send(self, parts: list[bytes | FileSlice]) -> None:
        if self._closed:
            _release(parts)
            return
        self._queue.extend(parts)
        size = 0
        for part in parts:
            size += len(part) if part.__class__ is bytes else part.length  # type: ignore[union-attr]
        self.unsent_bytes += size
        if not self._corked and not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_later)

    def cork(self) -> None:
        self._corked = True

    def uncork(self) -> None:
        self._corked = False
        if self._queue and not self._writing and not self._starved:
            self._flush()

    def push(self) -> None:
        """Send what TLS has to say itself, now or once the socket has room."""
        if not self._writing and not self._closed:
            self._flush()

    def close(self) -> None:
        """Close the socket; unsent bytes are dropped and their slices released."""
        if self._closed:
            return
        self._closed = True
        if self._writing:
            self._loop.remove_writer(self._socket.fileno())
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._on_drained = self._on_broken = _nothing
        if not self._warming:
            _release(self._queue)
            self._queue.clear()

    def _flush_later(self) -> None:
        self._flushing = False
        if self._queue and not self._writing and not self._starved and not self._closed:
            self._flush()

    def _flush(self) -> None:
        try:
            emptied = self._send_queue() and (self._tls is None or self._tls.flush())
        except (BlockingIOError, InterruptedError):
            emptied = False
        except OSError:
            self._on_broken()
            return
        if self._closed:
            return
        if emptied:
            self.stuck_since = None
            if self._writing:
                self._writing = False
                self._loop.remove_writer(self._socket.fileno())
            self._on_drained()
        elif self._starved:
            self.stuck_since = None  # the disk is waited for, not the peer
            if self._writing:  # the socket may be ready all the while
                self._writing = False
                self._loop.remove_writer(self._socket.fileno())
        else:
            if not self._warming:
                self._warm_until = 0  # pages may leave the cache while a slow peer takes its time
            if self.stuck_since is None:
                self.stuck_since = time.monotonic()
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._socket.fileno(), self._flush)

    def _send_queue(self) -> bool:
        """Send until the queue is empty (True), the socket is full, or this turn's share is used up."""
        queue = self._queue
        share = _TURN_BYTES
        while queue:
            first = queue[0]
            sent = 0 if self._slice_sent else self._send_bytes(queue)
            if sent == 0 and first.__class__ is FileSlice:
                if share <= 0:
                    return False
                sent = self._send_slice(first)
                if sent == 0:
                    return False
                share -= sent
            self.unsent_bytes -= sent
            self.stuck_since = None
        return True

    def _send_bytes(self, queue: deque[Part]) -> int:
        """Send the leading bytes, small slices among them; 0 if the first part is a slice that is sent by itself."""
        buffers: list[bytes] = []
        flags = 0
        while queue and len(buffers) < _MOST_PARTS:
            part = queue[0]
            if part.__class__ is FileSlice:
                if (copied := _copied(part)) is None:
                    flags = _MORE
                    break
                part.release()
                self._warm_until = 0  # it was a position in the file of this slice
                part = copied
            buffers.append(part)  # type: ignore[arg-type]
            queue.popleft()
        if not buffers:
            return 0
        left = 0
        try:
            alone = len(buffers) == 1
            left = sent = self._socket.send(buffers[0], flags) if alone else self._socket.sendmsg(buffers, [], flags)
        finally:  # unsent bytes return to the queue
            for number, buffer in enumerate(buffers):
                if left < len(buffer):
                    queue.extendleft([*buffers[:number:-1], buffer[left:]])
                    break
                left -= len(buffer)
        return sent

    def _send_slice(self, piece: FileSlice) -> int:
        """Send a part of a slice; 0 while its next pages are still being read."""
        position = piece.position + self._slice_sent
        left = min(piece.length - self._slice_sent, PIECE_BYTES)
        descriptor = piece.file.fileno()
        if descriptor < 0:
            sent = self._socket.send(piece.file.read_at(position, left))
        else:
            if position < self._warm_until:  # read once is enough: pages that cannot be kept would be read for ever
                left = min(left, self._warm_until - position)
            elif self._warming or not is_warm(descriptor, position, left):
                self._starved = True
                if not self._warming:
                    self._warming = True
                    self._cold.warm(descriptor, position, left, self._arrived)
                return 0
            if self._tls is not None:
                sent = self._tls.send_file(descriptor, position, left)
            else:
                sent = os.sendfile(self._socket.fileno(), descriptor, position, left)
        if sent == 0:
            raise OSError("a file ended before its slice did")  # the connection closes (rule B5)
        self._slice_sent += sent
        if self._slice_sent == piece.length:
            self._slice_sent = self._warm_until = 0
            self._queue.popleft()
            piece.release()
        return sent

    def _arrived(self, position: int, is_last: bool) -> None:
        self._warming = not is_last
        # A peer whose socket is full may take so long that the pages leave the cache: they are looked at again.
        self._warm_until = 0 if is_last and self._writing else position
        self._starved = False
        if self._closed:
            if is_last:
                _release(self._queue)
                self._queue.clear()
        elif self._queue and not self._writing:
            self._flush()


def _copied(piece: FileSlice) -> bytes | None:
    """The bytes of a small slice, if they can be had without waiting for the disk."""
    if piece.length > _SMALL_BYTES or (descriptor := piece.file.fileno()) < 0:
        return None
    return read_warm(descriptor, piece.position, piece.length)


def _release(parts: deque[Part] | list[bytes | FileSlice]) -> None:
    for part in parts:
        if isinstance(part, FileSlice):
            part.release()


def _nothing() -> None:
    pass
