"""Connections to brokers over blocking sockets, and the driver that carries out the effects of stories over them."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla.client.core.effects import Ask, AskAll, Effect, FeaturesOf, Finish, First, Pause, Start, VersionsOf
from ottla.client.core.link import Link, api_of, api_versions_request, response_of
from ottla.client.core.transport import PLAINTEXT, Security
from ottla.client.errors import (
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    ProtocolViolation,
    RequestTimedOut,
    refused,
)
from ottla.client.model import ClientSettings, Destination
from ottla.kernel.errors import ApiError, ErrorCode

T = TypeVar("T")


def now_ms() -> float:
    return time.monotonic() * 1000


class Connection:
    """One connection to one broker; ApiVersions are exchanged when it opens. Not for several threads at once."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        settings: ClientSettings | None = None,
        security: Security = PLAINTEXT,
    ) -> None:
        self.host = host
        self.port = port
        self.settings = settings or ClientSettings()
        self._link = Link(self.settings.client_id)
        self._answers: dict[int, Any] = {}
        self._unsent: deque[memoryview] = deque()
        self._socket = self._connect(security)
        try:
            self._negotiate()
            if security.authenticate is not None:
                security.authenticate(self)
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
        """Like `send`, but `push` sends the bytes for which the socket has no room now."""
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
            if not self._link.waiting:
                return

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

    def usable(self) -> bool:
        """False once the peer has closed the connection; found out without waiting."""
        if self._socket.fileno() < 0:
            return False
        return not _readable([self], 0) or self._link.waiting > 0

    def close(self) -> None:
        self._socket.close()

    def interrupt(self) -> None:
        """Let the thread that waits for an answer find the connection lost."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _connect(self, security: Security) -> socket.socket:
        try:
            made = socket.create_connection((self.host, self.port), timeout=self.settings.connect_timeout_ms / 1000)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made if security.secure is None else security.secure(made, self.host)
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
        try:
            frame = self._link.inbox.received(count)
            if frame is not None:
                number, message = self._link.answer(frame)
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


class Started(NamedTuple):
    """A request whose answer is not awaited yet."""

    connection: Connection
    number: int
    timeout_ms: float
    sent_s: float


def _readable(connections: Sequence[Connection], timeout_ms: float) -> set[int]:
    """The descriptors that can be read within the time; not by `select`, which knows none from 1024 on."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection.fileno(), select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(timeout_ms)}


class Driver:
    """Carries out the effects of stories, over connections kept per destination. One story at a time.

    A forked process starts without connections, also where its parent had some open.
    """

    def __init__(self, settings: ClientSettings, security: Security = PLAINTEXT) -> None:
        self.settings = settings
        self.security = security
        self._connections: dict[Destination, Connection] = {}
        self._process = os.getpid()
        self._lock = threading.RLock()

    def run(self, story: Coroutine[Effect, Any, T]) -> T:
        """Drive a story to its end."""
        if self._process != os.getpid():
            self._lock = threading.RLock()  # the thread that held the lock lives in the parent
        with self._lock:
            answer: Any = None
            fault: Exception | None = None
            while True:
                try:
                    effect = story.send(answer) if fault is None else story.throw(fault)
                except StopIteration as end:
                    result: T = end.value
                    return result
                answer = fault = None
                try:
                    answer = self._carry_out(effect)
                except (ClientError, ApiError) as failed:
                    fault = failed
                except BaseException:  # KeyboardInterrupt: a request may be sent by half, its answer read by half
                    story.close()
                    self.close()
                    raise

    def connection(self, destination: Destination) -> Connection:
        """The open connection to a destination, made where there is none."""
        if self._process != os.getpid():
            self._connections = {}
            self._process = os.getpid()
        known = self._connections.get(destination)
        if known is not None and known.usable():
            return known
        if known is not None:
            known.close()
        made = Connection(destination.host, destination.port, settings=self.settings, security=self.security)
        self._connections[destination] = made
        return made

    def close(self) -> None:
        """Close all connections; the next story opens new ones. A story of another thread is not waited for."""
        if self._process != os.getpid():
            self._connections = {}
        elif self._lock.acquire(blocking=False):
            try:
                for connection in self._connections.values():
                    connection.close()
                self._connections = {}
            finally:
                self._lock.release()
        else:
            for connection in list(self._connections.values()):
                connection.interrupt()

    def start(self, ask: Ask[Any]) -> Started:
        """Send a request; `finish` takes its answer."""
        connection = self.connection(ask.destination)
        version = connection.choose(ask.request, ask.min_version, ask.max_version)
        number = connection.send(ask.build(version), version, ask.response)
        return Started(connection, number, ask.timeout_ms or self.settings.request_timeout_ms, time.monotonic())

    def finish(self, started: Started) -> Any:
        return started.connection.wait(started.number, timeout_ms=started.timeout_ms)

    def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Ask):
            return self.finish(self.start(effect))
        if isinstance(effect, AskAll):
            return self._all(effect.asks)
        if isinstance(effect, Pause):
            time.sleep(effect.ms / 1000)
            return None
        if isinstance(effect, Start):
            return self.start(effect.ask)
        if isinstance(effect, Finish):
            return self.finish(effect.handle)  # type: ignore[arg-type]
        if isinstance(effect, First):
            return self._first(effect)
        if isinstance(effect, FeaturesOf):
            return dict(self.connection(effect.destination).features)
        assert isinstance(effect, VersionsOf)
        return dict(self.connection(effect.destination).api_versions)

    def _first(self, effect: First) -> object | None:
        """One that is answered; or one that should be by now, whose connection is given up, so that `finish` raises."""
        handles: Sequence[Started] = effect.handles  # type: ignore[assignment]
        for handle in handles:
            if handle.connection.has_answer(handle.number):
                return handle
        readable = _readable([handle.connection for handle in handles], max(effect.timeout_ms, 0))
        for handle in handles:
            if handle.connection.fileno() in readable:
                return handle
        for handle in handles:
            if time.monotonic() > handle.sent_s + handle.timeout_ms / 1000:
                handle.connection.close()
                return handle
        return None

    def _all(self, asks: Sequence[Ask[Any]]) -> list[Any]:
        started: list[Any] = []
        for ask in asks:
            try:
                started.append(self.start(ask))
            except (ClientError, ApiError) as fault:
                started.append(fault)
        answers = []
        for each in started:
            try:
                answers.append(each if isinstance(each, Exception) else self.finish(each))
            except (ClientError, ApiError) as fault:
                answers.append(fault)
        return answers
