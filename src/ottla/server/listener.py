"""Accepts connections and feeds what they receive to wire/connection.py; closes the idle and the stuck."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import resource
import socket
import ssl
import time
from collections.abc import Callable

from ottla.access.connection_limits import ConnectionLimits
from ottla.access.login import Login
from ottla.server.cold_reads import ColdReads
from ottla.server.delayed_sockets import DelayedSockets
from ottla.server.tls_listener import NoPrincipal, TlsListener
from ottla.server.tls_socket import TlsSocket
from ottla.server.transport import SocketTransport
from ottla.wire.connection import ServerConnection
from ottla.wire.frame import SHARED_BYTES, FramePool, FrameReader, FrameTooLarge

_ACCEPTS_A_TURN = 64
_SWEEP_S = 5.0
_FILES_KEPT = 128
"""The open files that connections leave to the logs; at most a quarter of the process's limit.

A log directory that can open no file for its next segment or checkpoint goes offline.
"""
_PROVEN_WITHIN_S = 30.0
_MOST_UNPROVEN = 1000
"""The connections of one listener that may be on their way through TLS and SASL: each takes 40 KiB."""
_STUCK_S = 30.0
"""The time after which an unread answer closes its connection (rule E7).

A frame that waits for memory for so long closes a connection that has held memory for so long, or else its own.
"""

log = logging.getLogger("ottla.listener")
Serve = Callable[[ServerConnection, memoryview], None]


class Channel:
    """One accepted socket: reads into the loop's shared buffer and runs the connection over it."""

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


class Listener:
    """One listening socket and its channels."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        name: str,
        pool: FramePool,
        cold: ColdReads,
        max_frame_bytes: int,
        limits: ConnectionLimits,
        max_idle_ms: int,
        tls: TlsListener | None = None,
        logins: Callable[[], Login] | None = None,
        most_bytes_unproven: int = 0,
    ) -> None:
        """`tls` for a listener with TLS; `logins` begins the login of each connection of one with SASL, whose
        requests have at most `most_bytes_unproven` until then.
        """
        self.loop = loop
        self.tls = tls
        self._logins = logins
        self._most_bytes_unproven = most_bytes_unproven
        self._unproven: dict[Channel, float] = {}
        """Connections that have not shown who they are, with the time by which they must; the oldest first."""
        self.serve: Serve
        self.tell_login: Callable[[ServerConnection], None] = _tell_nobody
        """Told of a connection whose certificate says who it is."""
        """Called with each frame; set by `start`."""
        self.name = name
        self.pool = pool
        self.cold = cold
        self.max_frame_bytes = max_frame_bytes
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self._feeding = False
        self.starved: dict[Channel, None] = {}
        """Channels that wait for room in the frame pool."""
        self.channels: dict[Channel, None] = {}
        self.accepted = 0
        pool.now = time.monotonic()
        self.limits = limits
        self._delayed = DelayedSockets(loop)
        self._max_idle_s = max_idle_ms / 1000 if max_idle_ms >= 0 else math.inf
        self._socket: socket.socket | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def open(self, host: str, port: int) -> tuple[str, int]:
        """Take the address; return it as it is bound. OSError if the port is taken, by a broker that starts too.

        Connections are refused until `start`: a client goes elsewhere at once instead of waiting here.
        """
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            _bind_alone(sock, address)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        self._socket = sock
        bound = sock.getsockname()
        return bound[0], bound[1]

    def start(self, backlog: int, serve: Serve) -> None:
        """Listen and accept from now on, as the broker can serve; `serve` takes each frame.

        OSError if another process has bound the same port meanwhile, and listens already.
        """
        assert self._socket is not None
        self.serve = serve
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # accepted sockets inherit it
        self._socket.listen(backlog)
        self.loop.add_reader(self._socket.fileno(), self._acceptable)
        self._sweeper = self.loop.call_later(_SWEEP_S, self._sweep)

    def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._socket is not None:
            self.loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for channel in list(self.channels):
            channel.close()
        self._delayed.close()

    @property
    def has_logins(self) -> bool:
        """True if connections must log in by SASL."""
        return self._logins is not None

    def begins(self, channel: Channel) -> None:
        """Note a new connection; where it must show who it is, the oldest that has not yet makes room for it."""
        connection = channel.connection
        if self._logins is not None:
            connection.login = self._logins()
            connection.reader.max_frame_bytes = self._most_bytes_unproven
            connection.proven = lambda: self.proven(channel)
        elif self.tls is None:
            return
        if len(self._unproven) >= _MOST_UNPROVEN:
            oldest = next(iter(self._unproven))
            log.warning(
                "%s: closed, %d others have not shown either who they are", oldest.connection.name, _MOST_UNPROVEN
            )
            oldest.close()
        self._unproven[channel] = time.monotonic() + _PROVEN_WITHIN_S

    def proven(self, channel: Channel) -> None:
        """Note that a connection has shown who it is: its requests may be as long as any."""
        self._unproven.pop(channel, None)
        channel.connection.reader.max_frame_bytes = self.max_frame_bytes

    def broken(self, channel: Channel, fault: OSError) -> None:
        """Say in one line why TLS ended a connection; others end without a word."""
        if isinstance(fault, ssl.SSLError | NoPrincipal):
            reason = getattr(fault, "verify_message", None) or getattr(fault, "reason", None) or fault
            log.warning("%s: %s; closed", channel.connection.name, reason)

    def gone(self, channel: Channel) -> None:
        self.starved.pop(channel, None)
        self._unproven.pop(channel, None)
        if channel in self.channels:
            del self.channels[channel]
            self.limits.closed(self.name, channel.connection.peer_host)

    def _acceptable(self) -> None:
        assert self._socket is not None
        for _ in range(_ACCEPTS_A_TURN):
            try:
                sock, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._rest(error)
                return
            if self._takes_the_last_files(sock):
                sock.close()
                self._rest(OSError(errno.EMFILE, "the remaining file descriptors are for the logs"))
                return
            if delay_ms := self.limits.delay_ms(self.name, _now_ms()):
                self.loop.remove_reader(self._socket.fileno())
                self._delayed.after(delay_ms, sock, self._take_late)
                return
            self._take(sock, peer)

    def _take_late(self, sock: socket.socket) -> None:
        try:
            self._take(sock, sock.getpeername())
        except OSError:  # the client has left
            sock.close()
        self._accept_again()

    def _take(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        """Serve a new connection, unless it breaks a limit."""
        if (refused := self.limits.refusal(self.name, peer[0], _now_ms())) is not None:
            log.warning("%s: refused by %s", peer[0], refused.limit)
            self._delayed.after(refused.after_ms, sock, socket.socket.close)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.accepted += 1
        try:
            self.channels[Channel(self, sock, (peer[0], peer[1]))] = None
            self.limits.opened(self.name, peer[0])
        except OSError:
            sock.close()

    def _takes_the_last_files(self, sock: socket.socket) -> bool:
        """True if connections have used up their share. A new descriptor is the lowest that is free."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit == resource.RLIM_INFINITY:
            return False
        kept = min(_FILES_KEPT, limit // 4)
        return sock.fileno() >= limit - kept and len(self.channels) >= kept

    def _rest(self, error: OSError) -> None:
        """Stop accepting for a while, as no descriptors are left: accepting again at once would only spin."""
        log.warning("cannot accept connections for a second: %s", error)
        assert self._socket is not None
        self.loop.remove_reader(self._socket.fileno())
        self.loop.call_later(1.0, self._accept_again)

    def _accept_again(self) -> None:
        if self._socket is not None:
            self.loop.add_reader(self._socket.fileno(), self._acceptable)

    def _sweep(self) -> None:
        """Close connections that were idle or left answers unread for too long; let those without memory try again."""
        self._sweeper = self.loop.call_later(_SWEEP_S, self._sweep)
        now = self.pool.now = time.monotonic()
        for channel in list(self.channels):
            if channel.asked:
                channel.asked = False
                channel.used = now
            stuck = channel.transport.stuck_since
            if stuck is not None and now - stuck > _STUCK_S:
                log.warning("%s reads no answers; closed", channel.connection.name)
                channel.close()
            elif now - channel.used > self._max_idle_s and not channel.transport.unsent_bytes:
                channel.close()
        for channel, until in list(self._unproven.items()):
            if until > now:
                break
            log.warning("%s: has not shown in %.0f s who it is; closed", channel.connection.name, _PROVEN_WITHIN_S)
            channel.close()
        if self.tls is not None:
            self.tls.follow()
        self._feed_starved(now)

    def feed_soon(self) -> None:
        """Feed waiting channels soon, as a buffer came back to the pool; not at once, as the caller is not done yet."""
        if not self._feeding:
            self._feeding = True
            self.loop.call_soon(self._feed)

    def _feed(self) -> None:
        self._feeding = False
        self._feed_starved(time.monotonic())

    def _feed_starved(self, now: float) -> None:
        """Close a connection if one waits too long for memory: one that holds memory that long, else itself."""
        starved, self.starved = self.starved, {}
        given_up = False
        for channel in starved:
            if not given_up and channel.starved_s(now) > _STUCK_S:
                given_up = True
                holder = self.pool.holder_to_close(now - _STUCK_S)
                if holder is None or holder is channel.connection.reader:
                    log.warning("%s: no memory for its request in %.0f s; closed", channel.connection.name, _STUCK_S)
                    channel.close()
                    continue
                holder.give_up()
            channel.resume()


def _bind_alone(sock: socket.socket, address: tuple[object, ...]) -> None:
    """Bind so that no other process can bind the same port before this one listens.

    On Linux several sockets that have SO_REUSEADDR may bind one port until one of them listens: two brokers that start
    together would both have it, and one would find out after it has registered. The option is needed where connections
    of an earlier process have not ended yet, and is taken off again at once.
    """
    try:
        sock.bind(address)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)


def _tell_nobody(_connection: ServerConnection) -> None:
    pass


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
