"""Connections to brokers over blocking sockets."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ottla.client.core.link import Link, api_of, api_versions_request, response_of
from ottla.client.core.login import ENDLESS, login, shown_token
from ottla.client.errors import (
    BrokerUnreachable,
    ConnectionLost,
    ProtocolViolation,
    RequestTimedOut,
    refused,
)
from ottla.client.model import ClientSettings
from ottla.client.security import Security
from ottla.kernel.errors import ErrorCode


def now_ms() -> float:
    return time.monotonic() * 1000


class HasDescriptor(Protocol):
    """Something that can be waited for."""

    def fileno(self) -> int:
        """Its descriptor; negative once it is closed."""


class Connection:
    """One connection to one broker; ApiVersions are exchanged when it opens. Not for several threads at once."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        settings: ClientSettings | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.settings = settings or ClientSettings()
        self._link = Link(self.settings.client_id)
        self._answers: dict[int, Any] = {}
        self._unwanted: set[int] = set()
        self._unsent: deque[memoryview] = deque()
        self._received = 0
        self._session = ENDLESS
        self._socket = self._connect(self.settings.security)
        try:
            self._negotiate()
            if self.settings.security.has_sasl:
                self._log_in()
        except BaseException:
            self.close()
            raise

    @property
    def api_versions(self) -> Mapping[int, tuple[int, int]]:
        """The versions that the broker announces: key -> (first, last)."""
        return self._link.versions

    @property
    def features(self) -> Mapping[str, int]:
        """The levels of features that the cluster has finalized, by name, as the broker says."""
        return self._link.features

    @property
    def local_address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def request(self, message: Any, version: int | None = None, *, timeout_ms: int | None = None) -> Any:
        """Send a request, return its answer. `version` None: the newest that both sides speak."""
        return self.wait(self.send(message, version), timeout_ms=timeout_ms)

    def send(self, message: Any, version: int | None = None, response: type[Any] | None = None) -> int:
        """Send a request without waiting; `wait` with the number returned. Answers come in order.

        Produce with acks=0 has no answer: the number is -1.
        """
        if self._session.is_ending:
            self._renew()
        number, frame = self._framed(message, version, response)
        try:
            self._socket.settimeout(self.settings.request_timeout_ms / 1000)
            self._socket.sendall(frame)
        except OSError as fault:
            raise self._broken(fault) from fault
        return number

    def unblock(self) -> None:
        """Serve `begin`, `push` and `pull` from now on, which wait for nothing, and neither `send` nor `request`."""
        self._socket.settimeout(0)

    def begin(self, message: Any, version: int, response: type[Any]) -> int:
        """Like `send`, but `push` sends the bytes for which the socket has no room now.

        Both wait where the session is about to end: until it is renewed, behind the answers that are due.
        """
        if self._session.is_ending:
            self._renew()
            self.unblock()
        number, frame = self._framed(message, version, response)
        self._unsent.append(memoryview(frame))
        self.push()
        return number

    def push(self) -> None:
        """Send of the waiting bytes as many as the socket takes; raises ConnectionLost."""
        try:
            while self._unsent:
                count = self._socket.send(self._unsent[0])
                if count < len(self._unsent[0]):
                    self._unsent[0] = self._unsent[0][count:]
                else:
                    self._unsent.popleft()
        except OSError as fault:
            if not _would_wait(fault):
                raise self._broken(fault) from fault

    def receive_now(self) -> bool:
        """Take in what has come, without waiting; True if that was anything. Errors are those of `pull`."""
        before = self._received
        try:
            self._socket.settimeout(0)
        except OSError as fault:
            raise self._broken(fault) from fault
        self.pull()
        return self._received != before

    def forget(self, number: int) -> None:
        """Drop the answer to the request of this number, now or when it comes."""
        if self._answers.pop(number, None) is None:
            self._unwanted.add(number)

    def pull(self) -> None:
        """Take in what has come; raises ConnectionLost, for an end of the connection too, or ProtocolViolation."""
        while True:
            try:
                count = self._socket.recv_into(self._link.inbox.target())
            except OSError as fault:
                if _would_wait(fault):
                    return
                raise self._broken(fault) from fault
            self._take_in(count)
            if not self._link.waiting and not self.pending:
                return

    @property
    def pending(self) -> bool:
        """True if received bytes wait in TLS, where the descriptor does not show them."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.fileno() >= 0 and self._socket.pending() > 0

    def tls(self) -> tuple[str, str, bytes] | None:
        """The version of TLS, the cipher, and the broker's certificate in DER; None without TLS."""
        if not isinstance(self._socket, ssl.SSLSocket):
            return None
        cipher, shown = self._socket.cipher(), self._socket.getpeercert(binary_form=True)
        assert cipher is not None and shown is not None  # the handshake is done
        return self._socket.version() or "", cipher[0], shown

    @property
    def has_unsent(self) -> bool:
        """True if bytes wait for `push`."""
        return bool(self._unsent)

    def choose(self, request: type[Any], least: int = 0, most: int = 32767) -> int:
        """The newest version of an API that both sides speak; raises UnsupportedVersion."""
        return self._link.choose(api_of(request), least, most)

    def wait(self, number: int, *, timeout_ms: float | None = None) -> Any:
        """The answer to the request of this number."""
        if number < 0:
            return None
        allowed = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + allowed / 1000
        while number not in self._answers:
            self._receive(deadline, allowed)
        return self._answers.pop(number)

    def fileno(self) -> int:
        """The socket's descriptor, for `select`."""
        return self._socket.fileno()

    def has_answer(self, number: int) -> bool:
        """True if `wait` for this number would not read from the socket (even if it would fail at once)."""
        return number in self._answers or self._socket.fileno() < 0 or (number < 0 and not self._unsent)

    def holds(self, number: int) -> bool:
        """True if the answer to the request of this number has come, or none is due."""
        return number in self._answers or number < 0

    def usable(self) -> bool:
        """False once the peer has closed the connection; found out without waiting."""
        if self._socket.fileno() < 0:
            return False
        return not wait_readable([self], 0) or self._link.waiting > 0

    def close(self) -> None:
        self._socket.close()

    def interrupt(self) -> None:
        """Let the thread that waits for an answer find the connection lost."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _connect(self, security: Security) -> socket.socket:
        try:
            context = security.context()
            made = socket.create_connection((self.host, self.port), timeout=self.settings.connect_timeout_ms / 1000)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is None:
                return made
            try:
                return context.wrap_socket(made, server_hostname=self.host)
            except BaseException:
                made.close()
                raise
        except OSError as fault:
            raise BrokerUnreachable(f"cannot connect to {self.host}:{self.port}: {fault.strerror or fault}") from fault

    def _negotiate(self) -> None:
        """Exchange ApiVersions; a broker that does not know our version names its own, and is asked again (KIP-511)."""
        version = 4
        for _ in range(2):
            answer = self.request(api_versions_request(), version)
            if answer.error_code == ErrorCode.NONE:
                self._link.learn(answer)
                return
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
                break
            version = min(3, next((each.max_version for each in answer.api_keys if each.api_key == 18), 0))
        raise refused(answer.error_code, f"{self.host}:{self.port} refused ApiVersions")

    def _log_in(self) -> None:
        where = f"{self.host}:{self.port}"
        story = login(self.settings.security, where, shown_token(self.settings.security, where))
        answer = None
        while True:
            try:
                asked = story.send(answer)
            except StopIteration as end:
                self._session = end.value
                return
            answer = self.request(asked, 1)

    def _renew(self) -> None:
        """Log in again over the same connection (KIP-368), which is of no use if that fails."""
        self._session = ENDLESS
        try:
            self._socket.settimeout(self.settings.request_timeout_ms / 1000)
            while self._unsent:
                self._socket.sendall(self._unsent.popleft())
            self._log_in()
        except OSError as fault:
            raise self._broken(fault) from fault
        except BaseException:
            self.close()
            raise

    def _framed(self, message: Any, version: int | None, response: type[Any] | None) -> tuple[int, bytearray]:
        """The number of a request (-1: nothing is answered) and its bytes."""
        api = api_of(type(message))
        chosen = self._link.choose(api) if version is None else version
        answered = not (api.key == 0 and message.acks == 0)
        number, frame = self._link.request(
            api, message, chosen, response or response_of(type(message)), answered=answered
        )
        return (number if answered else -1), frame

    def _receive(self, deadline: float, allowed: float) -> None:
        """Wait for bytes, and take them in."""
        left = deadline - time.monotonic()
        if left <= 0:
            self.close()
            raise RequestTimedOut(f"{self.host}:{self.port} did not answer within {allowed:.0f} ms")
        try:
            self._socket.settimeout(left)
            count = self._socket.recv_into(self._link.inbox.target())
        except TimeoutError:
            return
        except OSError as fault:
            raise self._broken(fault) from fault
        self._take_in(count)

    def _take_in(self, count: int) -> None:
        """Note that `count` bytes were received, and keep the answer that is whole now."""
        if not count:
            self.close()
            raise ConnectionLost(f"{self.host}:{self.port} closed the connection")
        self._received += count
        try:
            frame = self._link.inbox.received(count)
            if frame is not None:
                number, message = self._link.answer(frame)
                if number in self._unwanted:
                    self._unwanted.discard(number)
                else:
                    self._answers[number] = message
        except ProtocolViolation:
            self.close()
            raise

    def _broken(self, fault: OSError) -> ConnectionLost:
        """Close the connection; the error to raise."""
        self.close()
        return ConnectionLost(f"the connection to {self.host}:{self.port} broke: {fault}")


def _would_wait(fault: OSError) -> bool:
    """True if a socket that waits for nothing has nothing to read, or no room; TLS says so by errors of its own."""
    return isinstance(fault, BlockingIOError) or type(fault).__name__ in ("SSLWantReadError", "SSLWantWriteError")


def wait_readable(some: Sequence[HasDescriptor], timeout_ms: float) -> bool:
    """True once one of them can be read, or is closed; not by `select`, which knows no descriptor from 1024 on."""
    poll = select.poll()
    for each in some:
        if each.fileno() < 0 or (isinstance(each, Connection) and each.pending):
            return True
        poll.register(each.fileno(), select.POLLIN)
    return bool(poll.poll(timeout_ms))
