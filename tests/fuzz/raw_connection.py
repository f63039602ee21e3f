"""A connection that sends exactly what a test wants: requests as messages, or any bytes."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any

from ottla.wire.apis import APIS

CLIENT_ID = b"raw"


class Ended(Exception):
    """The broker closed the connection."""


class RawConnection:
    """A blocking connection, with one request at a time unless `send` and `receive` are used separately."""

    def __init__(self, bootstrap: str, *, timeout: float = 60.0) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60.0)
        self.socket.settimeout(timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def ask(self, key: int, version: int, request: Any) -> Any:
        """Send one request and decode its answer."""
        self.send(frame(key, version, request, self._next()))
        return answer(key, version, self.receive())

    def send(self, raw: bytes) -> None:
        try:
            self.socket.sendall(raw)
        except OSError as fault:
            raise Ended(str(fault)) from fault

    def receive(self) -> bytes:
        """The next answer, without its length."""
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _next(self) -> int:
        self._correlation_id += 1
        return self._correlation_id

    def _exactly(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            try:
                more = self.socket.recv(length - len(parts))
            except TimeoutError:
                raise
            except OSError as fault:
                raise Ended(str(fault)) from fault
            if not more:
                raise Ended("the connection was closed")
            parts += more
        return bytes(parts)


def frame(key: int, version: int, request: Any, correlation_id: int = 1) -> bytes:
    """One request as it goes over the wire, its length in front."""
    api = APIS[key]
    out = bytearray(struct.pack(">ihhih", 0, key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID)
    if api.request_header_version(version) == 2:
        out.append(0)
    api.request_encoder(version)(request, out)
    struct.pack_into(">i", out, 0, len(out) - 4)
    return bytes(out)


def answer(key: int, version: int, raw: bytes) -> Any:
    """The message in an answer."""
    api = APIS[key]
    at = 4 + api.response_header_version(version)
    return api.response_decoder(version)(memoryview(raw), at)[0]
