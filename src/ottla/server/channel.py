"""One accepted socket: what it receives goes to wire/connection.py, and its answers leave by transport.py."""

from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING

from ottla.server.tls_socket import TlsSocket
from ottla.server.transport import SocketTransport
from ottla.wire.connection import ServerConnection
from ottla.wire.frame import FrameReader, FrameTooLarge

if TYPE_CHECKING:
    from ottla.server.listener import Listener

log = logging.getLogger("ottla.listener")


class Channel:
    """Reads into the loop's shared buffer and runs the connection over it."""

    __slots__ = (
        "_fd",
        "_listener",
        "_loop",
        "_reading",
        "_resuming",
        "_socket",
        "_tls",
        "asked",
        "connection",
        "starved_since",
        "transport",
        "used",
    )

    def __init__(self, listener: Listener, sock: socket.socket, peer: tuple[str, int]) -> None:
        self._listener = listener
        self._loop = listener.loop
        self._tls = None if listener.tls is None else listener.tls.over(sock, self._shaken)
        self._socket: socket.socket | TlsSocket = self._tls or sock
        self._fd = sock.fileno()
        local = sock.getsockname()
        reader = FrameReader(listener.shared, listener.pool, listener.max_frame_bytes)
        self.transport = SocketTransport(self._loop, self._socket, listener.cold, self._drained, self.close)
        self.connection = ServerConnection(
            reader,
            self.transport,
            listener.serve,
            name=f"{local[0]}:{local[1]}-{peer[0]}:{peer[1]}",
            peer_host=peer[0],
            local_address=(local[0], local[1]),
            listener=listener.name,
        )
        self.connection.resume = self._resume_soon
        reader.give_up = self._give_up
        reader.held = lambda: self.connection.held
        self.connection.on_close.append(self._closed)
        listener.begins(self)
        self.asked = False
        """True if bytes have come since the last sweep, which then sets `used`: reading the clock here costs more."""
        self.used = time.monotonic()
        self.starved_since: float | None = None
        """The time since which the connection's frame waits for room in the pool."""
        self._reading = True
        self._resuming = False
        self._loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        connection = self.connection
        if connection.paused:
            self._stop_reading()
            if self._peer_is_gone():
                self.close()
            return
        try:
            target = connection.reader.target()
        except AssertionError:
            log.exception("%s: closed by a fault of the broker's own", connection.name)
            self.close()
            return
        if target is None:
            self._starve()
            return
        try:
            count = self._socket.recv_into(target)
        except (BlockingIOError, InterruptedError):
            connection.reader.park()
            if self._tls is not None and self._tls.unsent:
                self.transport.push()
            return
        except OSError as fault:
            self._listener.broken(self, fault)
            self.close()
            return
        except Exception:
            log.exception("%s: closed by a fault of the broker's own", connection.name)
            self.close()
            return
        if count == 0:
            self.close()
            return
        self.asked = True
        self.starved_since = None
        connection.reader.received(count)
        self._run()
        if self._tls is not None:
            self._go_on(self._tls)

    def _shaken(self) -> None:
        """TLS is done; without SASL behind it, the certificate says who it is."""
        assert self._tls is not None
        assert self._listener.tls is not None
        if self.connection.login is None:
            self.connection.principal = self._listener.tls.principal(self._tls)
            self._listener.proven(self)
            self._listener.tell_login(self.connection)

    def _go_on(self, tls: TlsSocket) -> None:
        """Read on soon where decrypted bytes wait, of which the loop sees nothing; send what TLS has to say."""
        if self.connection.closed:
            return
        if tls.unsent:
            self.transport.push()
        if tls.pending and self._reading:
            self._loop.call_soon(self._read_pending)

    def _read_pending(self) -> None:
        if self._reading and not self.connection.closed:
            self._readable()

    def _run(self) -> None:
        try:
            self.connection.run()
        except FrameTooLarge as fault:
            log.warning("%s: %s; closed", self.connection.name, fault)
            self.close()
        except Exception:
            log.exception("%s: closed by a fault of the broker's own", self.connection.name)
            self.close()
        else:
            connection = self.connection
            if connection.paused and connection.reader.parks_too_much:
                log.warning("%s: sends more while its requests wait, and memory is short; closed", connection.name)
                self.close()
            elif connection.paused and not self._resuming and not connection.held:
                self._starve()

    def _starve(self) -> None:
        """True if the frame under way has no room in the pool: nothing else would ever resume the connection."""
        self.connection.paused = True
        self._stop_reading()
        if self.starved_since is None:
            self.starved_since = time.monotonic()
        self._listener.starved[self] = None
        self._listener.pool.waiting[self._listener.feed_soon] = None

    def starved_s(self, now: float) -> float:
        """The time for which the connection's frame has waited for room in the pool; 0 if it does not wait for that."""
        connection = self.connection
        if connection.held or not connection.reader.refused:
            self.starved_since = None
        return 0.0 if self.starved_since is None else now - self.starved_since

    def _peer_is_gone(self) -> bool:
        """True if the client has left while it had to wait, with nothing unread behind it."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _resume_soon(self) -> None:
        """Resume soon, as the caller is in the middle of an answer. Until then the connection stays paused."""
        if not self._resuming:
            self._resuming = True
            self._loop.call_soon(self.resume)

    def resume(self) -> None:
        """Serve the received frames, then read on."""
        self._resuming = False
        connection = self.connection
        if connection.held:
            return
        connection.paused = False
        if connection.reader.parked_whole_frames:
            self._run()
        if not connection.closed and not connection.paused and not self._reading:
            self._reading = True
            self._loop.add_reader(self._fd, self._readable)
            if self._tls is not None:
                self._go_on(self._tls)

    def _give_up(self) -> None:
        log.warning("%s: holds memory that others wait for; closed", self.connection.name)
        self.close()

    def _drained(self) -> None:
        self.connection.drained()

    def close(self) -> None:
        self.connection.close()

    def _closed(self) -> None:
        self._listener.gone(self)
