"""Drives several stories at once on one thread: a broker that does not answer holds back its own story alone.

The producer's sending thread uses this; `Driver` in driver.py drives one story after the other.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ottla.client.blocking.sockets import Connection, now_ms
from ottla.client.core.effects import Ask, AskAll, ClientStory, Pause
from ottla.client.errors import ClientError, RequestTimedOut
from ottla.client.model import ClientSettings, Destination
from ottla.kernel.errors import ApiError

T = TypeVar("T")
Fault = ClientError | ApiError


class _Running(Generic[T]):
    """A story, and the requests or the pause that it awaits."""

    __slots__ = ("effect", "left", "requests", "story")

    def __init__(self, story: ClientStory[T]) -> None:
        self.story = story
        self.effect: Ask[Any] | AskAll[Any] | Pause | None = None
        self.requests: Sequence[_Request] = ()
        self.left = 0
        """The number of requests that have neither an answer nor an error."""


class _Request:
    """One request of a story: it waits for its connection, then for its answer."""

    __slots__ = ("answer", "ask", "due_ms", "number", "running")

    def __init__(self, ask: Ask[Any], running: _Running[Any]) -> None:
        self.ask = ask
        self.running = running
        self.number = -1
        self.due_ms = float("inf")
        self.answer: Any = None
        """The answer, or the error that stands for it."""


class _Line:
    """A connection and its requests without an answer, oldest first. A thread opens the connection: `found` is new."""

    __slots__ = ("connection", "descriptor", "destination", "found", "requests")

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.connection: Connection | None = None
        self.descriptor = -1
        self.found: Connection | Fault | None = None
        self.requests: list[_Request] = []

    @property
    def due_ms(self) -> float:
        """The time at which the oldest request is late."""
        return self.requests[0].due_ms if self.requests else float("inf")


class Stories(Generic[T]):
    """Drives stories that await requests and pauses. For one thread, except for `wake`.

    Nothing but `wait` waits. Threads open connections, because the look-up of a name, a handshake and a login wait.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._lines: dict[Destination, _Line] = {}
        self._running: dict[_Running[T], None] = {}
        self._pausing: dict[_Running[T], float] = {}
        self._answered: deque[_Running[T]] = deque()
        self._ended: list[T] = []
        self._closed = False
        self._woken, self._wakes = socket.socketpair()
        self._woken.setblocking(False)
        self._wakes.setblocking(False)
        self._sockets = select.poll()
        self._sockets.register(self._woken, select.POLLIN)
        self._open_lines: dict[int, _Line] = {}
        """The lines whose connections are open, by descriptor: a line that the peer ends is given up at once."""

    def begin(self, story: ClientStory[T]) -> None:
        """Drive a story up to where it waits; `wait` drives it on."""
        running = _Running(story)
        self._running[running] = None
        self._step(running, None)
        self._go_on()

    def wait(self, until_ms: float) -> list[T]:
        """Drive stories on until some have ended, and return their results; none at `until_ms`, and after `wake`."""
        over = False
        while not self._ended and not over:
            due_ms = min([until_ms, *self._pausing.values(), *(line.due_ms for line in self._lines.values())])
            left_ms = max(due_ms - now_ms(), 0)
            over = self._poll(None if left_ms == float("inf") else left_ms)
            now = now_ms()
            if now >= due_ms:
                self._give_up_late(now)
                over |= now >= until_ms
            self._go_on()
        ended, self._ended = self._ended, []
        return ended

    def wake(self) -> None:
        """Let `wait` return, now or when it is called next; for any thread."""
        with contextlib.suppress(OSError):  # full of bytes that wake already, or closed
            self._wakes.send(b"\0")

    def close(self) -> None:
        """End all stories and close the connections."""
        self._closed = True
        for line in self._lines.values():
            if line.connection is not None:
                line.connection.close()
            if isinstance(line.found, Connection):
                line.found.close()
        for running in self._running:
            running.story.close()
        self._lines, self._running, self._pausing = {}, {}, {}
        self._woken.close()
        self._wakes.close()

    def _poll(self, timeout_ms: float | None) -> bool:
        """Wait for sockets, at most so long, and send and receive what they let through; True after `wake`."""
        woken = False
        for descriptor, _ in self._sockets.poll(timeout_ms):
            line = self._open_lines.get(descriptor)
            if line is not None:
                self._exchange(line)
            elif descriptor == self._woken.fileno():
                woken = True
                self._woken.recv(4096)
                self._take_connections()
        return woken

    def _exchange(self, line: _Line) -> None:
        """Send and receive over a connection, and note the answers."""
        connection = line.connection
        assert connection is not None
        had_unsent = connection.has_unsent
        try:
            connection.push()
            connection.pull()
        except ClientError as fault:
            self._lose(line, fault)
            return
        if had_unsent:
            self._look_out(connection)
        waiting, line.requests = line.requests, []
        for request in waiting:
            if connection.has_answer(request.number):
                self._note(request, connection.wait(request.number))
            else:
                line.requests.append(request)

    def _look_out(self, connection: Connection) -> None:
        """Let `_poll` look for bytes of the peer or its end, and for room where bytes are to be sent."""
        self._sockets.register(connection, select.POLLIN | (select.POLLOUT if connection.has_unsent else 0))

    def _take_connections(self) -> None:
        """Send the requests that waited for a connection which is open now."""
        for line in list(self._lines.values()):
            found, line.found = line.found, None
            if isinstance(found, Connection):
                found.unblock()
                line.connection = found
                line.descriptor = found.fileno()
                self._open_lines[line.descriptor] = line
                self._look_out(found)
                for request in list(line.requests):
                    if line.connection is found:
                        self._send(line, request)
            elif found is not None:
                self._lose(line, found)

    def _give_up_late(self, now: float) -> None:
        """Close connections whose oldest request should have been answered, and end the pauses that are over."""
        for line in list(self._lines.values()):
            if line.due_ms <= now:
                where, allowed = line.destination, self._allowed_ms(line.requests[0].ask)
                self._lose(line, RequestTimedOut(f"{where} did not answer within {allowed:.0f} ms"))
        for running, until_ms in list(self._pausing.items()):
            if until_ms <= now:
                del self._pausing[running]
                self._answered.append(running)

    def _go_on(self) -> None:
        """Drive every story on that has all that it awaited."""
        while self._answered:
            running = self._answered.popleft()
            answers = [request.answer for request in running.requests]
            self._step(running, answers[0] if isinstance(running.effect, Ask) else answers)

    def _step(self, running: _Running[T], answer: Any) -> None:
        """Drive a story to the next effect, and begin that."""
        story = running.story
        try:
            alone = isinstance(running.effect, Ask)
            effect = story.throw(answer) if alone and isinstance(answer, Exception) else story.send(answer)
        except StopIteration as end:
            del self._running[running]
            self._ended.append(end.value)
            return
        assert isinstance(effect, (Ask, AskAll, Pause))
        running.effect = effect
        if isinstance(effect, Pause):
            running.requests = ()
            self._pausing[running] = now_ms() + effect.ms
            return
        asks = [effect] if isinstance(effect, Ask) else effect.asks
        running.requests = [_Request(ask, running) for ask in asks]
        running.left = len(asks)
        for request in running.requests:
            self._ask(request)
        if not asks:
            self._answered.append(running)

    def _ask(self, request: _Request) -> None:
        """Send a request, or let it wait until its connection is open."""
        where = request.ask.destination
        line = self._lines.get(where)
        if line is None:
            line = self._lines[where] = _Line(where)
            threading.Thread(target=self._open, args=[line], name=f"ottla-connect-{where}", daemon=True).start()
        line.requests.append(request)
        if line.connection is not None:
            self._send(line, request)

    def _open(self, line: _Line) -> None:
        """Open a connection; on a thread of its own."""
        where = line.destination
        found: Connection | Fault = ClientError(f"connecting to {where} failed; the error is on standard error")
        try:
            found = Connection(where.host, where.port, settings=self.settings)
        except (ClientError, ApiError) as fault:
            found = fault
        finally:
            line.found = found
            if self._closed and isinstance(found, Connection):
                found.close()
            self.wake()

    def _send(self, line: _Line, request: _Request) -> None:
        ask, connection = request.ask, line.connection
        assert connection is not None
        try:
            version = connection.choose(ask.request, ask.min_version, ask.max_version)
            request.number = connection.begin(ask.build(version), version, ask.response)
        except (ClientError, ApiError) as fault:
            if connection.fileno() < 0:
                self._lose(line, fault)
            else:
                line.requests.remove(request)
                self._note(request, fault)
            return
        if connection.has_unsent:
            self._look_out(connection)
        request.due_ms = now_ms() + self._allowed_ms(ask)
        if connection.has_answer(request.number):  # acks=0: nothing is answered
            line.requests.remove(request)
            self._note(request, None)

    def _lose(self, line: _Line, fault: Fault) -> None:
        """Give a connection up, and let the error stand for all answers that are due."""
        if line.connection is not None:
            self._sockets.unregister(line.descriptor)
            del self._open_lines[line.descriptor]
            line.connection.close()
            line.connection = None
        if self._lines.get(line.destination) is line:
            del self._lines[line.destination]
        requests, line.requests = line.requests, []
        for request in requests:
            self._note(request, fault)

    def _note(self, request: _Request, answer: Any) -> None:
        request.answer = answer
        request.running.left -= 1
        if not request.running.left:
            self._answered.append(request.running)

    def _allowed_ms(self, ask: Ask[Any]) -> float:
        return ask.timeout_ms or self.settings.request_timeout_ms
