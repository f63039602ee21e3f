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
from ottla.server.channel import Channel
from ottla.server.cold_reads import ColdReads
from ottla.server.delayed_sockets import DelayedSockets
from ottla.server.tls_listener import NoPrincipal, TlsListener
from ottla.server.unproven import Unproven
from ottla.wire.connection import ServerConnection
from ottla.wire.frame import SHARED_BYTES, FramePool

_ACCEPTS_A_TURN = 64
_SWEEP_S = 5.0
_FILES_KEPT = 128
"""The open files that connections leave to the logs; at most a quarter of the process's limit.

A log directory that can open no file for its next segment or checkpoint goes offline.
"""
_STUCK_S = 30.0
"""The time after which an unread answer closes its connection (rule E7).

A frame that waits for memory for so long closes a connection that has held memory for so long, or else its own.
"""

log = logging.getLogger("ottla.listener")
Serve = Callable[[ServerConnection, memoryview], None]


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
        self._unproven = Unproven()
        self.serve: Serve
        """Called with each frame; set by `start`."""
        self.tell_login: Callable[[ServerConnection], None] = _tell_nobody
        """Told of a connection whose certificate says who it is."""
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
        self._unproven.add(channel)

    def proven(self, channel: Channel) -> None:
        """Note that a connection has shown who it is: its requests may be as long as any."""
        self._unproven.remove(channel)
        channel.connection.reader.max_frame_bytes = self.max_frame_bytes

    def broken(self, channel: Channel, fault: OSError) -> None:
        """Say in one line why TLS ended a connection; others end without a word."""
        if isinstance(fault, ssl.SSLError | NoPrincipal):
            reason = getattr(fault, "verify_message", None) or getattr(fault, "reason", None) or fault
            log.warning("%s: %s; closed", channel.connection.name, reason)

    def gone(self, channel: Channel) -> None:
        self.starved.pop(channel, None)
        self._unproven.remove(channel)
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
        return sock.fileno() >= limit - kept and len(self.channels) + len(self._delayed) >= kept

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
        self._unproven.close_late(now)
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
