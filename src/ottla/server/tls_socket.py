"""TLS over a non-blocking socket: the calls of a socket that listener.py and transport.py use, over two buffers of
OpenSSL's. No call waits; BlockingIOError means what it means on a socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Callable, Iterable

_RECORDS_BYTES = 64 << 10
"""The most that is encrypted at once: so much may wait beyond the socket's own buffer."""
SCRATCH_BYTES = 256 << 10
"""The size of the buffer for received ciphertext, which all connections of a listener share."""

_NOTHING = ssl.MemoryBIO()
"""Stands for the buffers of a connection that is closed."""


class TlsSocket:
    """The broker's side of one connection. Its TLS is made when the first bytes come: until then it costs a socket."""

    __slots__ = (
        "_context", "_in", "_may_shake", "_object", "_out", "_over", "_rest", "_scratch", "_socket", "_tell",
        "pending", "shaken",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        context: Callable[[], ssl.SSLContext],
        scratch: memoryview,
        may_shake: Callable[[], bool],
        shaken: Callable[[], None],
    ) -> None:
        """`context` gives the one in use now; `may_shake` is false once this turn of the loop has done its share.

        `shaken` is called when the handshake is done; an OSError there ends the connection.
        """
        self._tell = shaken
        self._socket = sock
        self._context = context
        self._scratch = scratch
        self._may_shake = may_shake
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object: ssl.SSLObject | None = None
        self._over = False
        self._rest = memoryview(b"")
        """Ciphertext that the socket has not taken yet."""
        self.shaken = False
        """True once the handshake is done."""
        self.pending = False
        """True if decrypted or undecrypted bytes wait here, of which epoll knows nothing."""

    def fileno(self) -> int:
        return self._socket.fileno()

    def recv_into(self, target: memoryview) -> int:
        """Receive decrypted bytes; 0 at the end of the connection."""
        if not self.shaken:
            if not self._may_shake():
                raise BlockingIOError  # nothing is taken from the socket, so that the loop calls again
            self._shake(self._object or self._begin())
        self.pending = False
        got = self._decrypt(target)
        if not got and not self._over:
            if not self._receive():
                return 0
            got = self._decrypt(target)
        if self._out.pending:  # an answer of TLS's own, as to a key update
            self._send_on()
            if self._out.pending > _RECORDS_BYTES:
                raise ssl.SSLError(1, "it asks for new keys without end and reads no answer")
        if not got and not self._over:
            raise BlockingIOError  # a record is not whole yet
        self.pending = got == len(target)
        return got

    def recv(self, count: int, flags: int) -> bytes:
        """Ciphertext as it comes, to look whether the peer is gone."""
        return self._socket.recv(count, flags)

    def send(self, data: bytes | memoryview, _flags: int = 0) -> int:
        """Encrypt and send; the bytes that are taken leave later where the socket has no room now."""
        if not self.flush():
            raise BlockingIOError
        assert self._object is not None
        count = self._object.write(memoryview(data)[:_RECORDS_BYTES])
        self.flush()
        return count

    def sendmsg(self, buffers: Iterable[bytes], _ancillary: object = (), _flags: int = 0) -> int:
        """Like `send`, of several buffers: as many as fit a few records leave together."""
        some, size = [], 0
        for buffer in buffers:
            some.append(buffer)
            size += len(buffer)
            if size >= _RECORDS_BYTES:
                break
        return self.send(b"".join(some))

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        """Like `os.sendfile`: the bytes of a file; 0 at its end."""
        data = os.pread(descriptor, min(count, _RECORDS_BYTES), position)
        return self.send(data) if data else 0

    def flush(self) -> bool:
        """Hand the ciphertext to the socket; False while it has no room for all."""
        if not self._rest and self._out.pending:
            self._rest = memoryview(self._out.read())
        while self._rest:
            try:
                sent = self._socket.send(self._rest)
            except (BlockingIOError, InterruptedError):
                return False
            self._rest = self._rest[sent:]
            if not self._rest and self._out.pending:
                self._rest = memoryview(self._out.read())
        return True

    def peer_certificate(self) -> bytes | None:
        """The client's certificate as DER, if it has shown one."""
        return None if self._object is None else self._object.getpeercert(binary_form=True)

    def peer_subject(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """The subject of the client's certificate, as `ssl` gives it; empty without one."""
        shown = None if self._object is None else self._object.getpeercert()
        return shown.get("subject", ()) if shown else ()  # type: ignore[return-value]

    def close(self) -> None:
        """Say that it ends, if the socket takes that now; close.

        The memory of TLS is given back here: the connection itself may wait long for the garbage collector.
        """
        if self._object is not None and self.shaken:
            with contextlib.suppress(ssl.SSLError, OSError, ValueError):
                with contextlib.suppress(ssl.SSLWantReadError):
                    self._object.unwrap()
                self.flush()
        self._object, self._in, self._out, self._rest = None, _NOTHING, _NOTHING, memoryview(b"")
        self._tell = _nothing
        self._socket.close()

    def _begin(self) -> ssl.SSLObject:
        count = self._socket.recv_into(self._scratch)
        if count == 0:
            raise ConnectionResetError("closed before TLS began")
        self._in.write(self._scratch[:count])
        self._object = self._context().wrap_bio(self._in, self._out, server_side=True)
        return self._object

    def _decrypt(self, target: memoryview) -> int:
        if self._object is None:
            raise ConnectionAbortedError("it is closed")
        got = 0
        try:
            while got < len(target):
                count = self._object.read(len(target) - got, target[got:])
                if not count:
                    self._over = True
                    break
                got += count  # type: ignore[operator]
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._over = True
        return got

    def _shake(self, tls: ssl.SSLObject) -> None:
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_on()
                if not self._receive():
                    raise ConnectionResetError("closed during the handshake") from None
                continue
            except ssl.SSLError:
                self._send_on()  # the alert that says why
                raise
            self._send_on()
            self._tell()
            self.shaken = True  # not before: a connection whose owner cannot be told must never be read
            return

    def _receive(self) -> bool:
        """Take ciphertext from the socket; False at its end. BlockingIOError if there is none now."""
        count = self._socket.recv_into(self._scratch)
        if count:
            self._in.write(self._scratch[:count])
            return True
        self._in.write_eof()
        return False

    def _send_on(self) -> None:
        with contextlib.suppress(OSError):
            self.flush()

    @property
    def unsent(self) -> bool:
        """True while ciphertext waits for room in the socket."""
        return bool(self._rest) or self._out.pending > 0


def _nothing() -> None:
    pass
