"""Requests and stories that a story has started and does not wait for. `Driver` goes on with them.

Nothing here waits: `advance` does what can be done now, `sockets` and `due_ms` say when there may be more to do.
Threads open connections, because the look-up of a name, a handshake and a login wait.
"""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.client.blocking.sockets import Connection, HasDescriptor, now_ms
from ottla.client.core.effects import Ask, AskAll, ClientStory, Pause
from ottla.client.errors import ClientError, ConnectionLost, RequestTimedOut
from ottla.client.model import Destination
from ottla.kernel.errors import ApiError

Fault = ClientError | ApiError


class Connections(Protocol):
    """The part of the driver that requests need."""

    def usable(self, where: Destination) -> Connection | None:
        """The open connection to a destination, if there is one."""

    def open(self, where: Destination) -> Connection:
        """A new connection, for any thread."""

    def adopt(self, where: Destination, made: Connection) -> Connection:
        """Keep a new connection for further requests, or close it where there is one by now; the one that is kept."""

    def allowed_ms(self, ask: Ask[Any]) -> float:
        """The time that the answer to a request may take."""


class ConnectionOpening:
    """A connection that a thread opens. Its descriptor can be read once that has ended."""

    def __init__(self, where: Destination, make: Callable[[Destination], Connection]) -> None:
        self.found: Connection | Fault | None = None
        self._given_up = False
        self._lock = threading.Lock()
        self._reads, self._writes = socket.socketpair()
        threading.Thread(target=self._open, args=[where, make], name=f"ottla-connect-{where}", daemon=True).start()

    def fileno(self) -> int:
        return self._reads.fileno()

    def give_up(self) -> None:
        """Close the connection, also if it is made later."""
        with self._lock:
            self._given_up = True
            if isinstance(self.found, Connection):
                self.found.close()
        self._reads.close()

    def end(self) -> None:
        """Note that `found` was taken."""
        self._reads.close()

    def _open(self, where: Destination, make: Callable[[Destination], Connection]) -> None:
        found: Connection | Fault = ClientError(f"connecting to {where} failed; the error is on standard error")
        try:
            found = make(where)
        except (ClientError, ApiError) as fault:
            found = fault
        finally:
            with self._lock:
                self.found = found
                if self._given_up and isinstance(found, Connection):
                    found.close()
            self._writes.close()


class Begun(ABC):
    """Something that goes on until it has a result or an error."""

    fault: Fault | None = None
    done = False

    @property
    @abstractmethod
    def due_ms(self) -> float:
        """The time at which `advance` has something to do even if no socket can be read."""

    @abstractmethod
    def sockets(self) -> list[HasDescriptor]:
        """`advance` has something to do once one of them can be read."""

    @abstractmethod
    def advance(self) -> None:
        """Do what can be done without waiting."""

    @abstractmethod
    def give_up(self) -> None:
        """End it without a result."""

    @abstractmethod
    def result(self) -> Any:
        """The result once it is done; or its error, which is raised."""


class Started(Begun):
    """One request: it waits for its connection, then for its answer."""

    def __init__(self, ask: Ask[Any], connections: Connections, known: Connection | None) -> None:
        """`known` is the open connection to the destination; where there is none, a thread opens one."""
        self.ask = ask
        self.connection: Connection | None = None
        self.number = -1
        self._connections = connections
        self._due_ms = float("inf")
        self._opening: ConnectionOpening | None = None
        if known is None:
            self._opening = ConnectionOpening(ask.destination, connections.open)
        else:
            self._send(known)

    @property
    def due_ms(self) -> float:
        return self._due_ms

    def sockets(self) -> list[HasDescriptor]:
        waited = self._opening or self.connection
        return [] if waited is None or self.done else [waited]

    def advance(self) -> None:
        opening = self._opening
        if opening is not None and opening.found is not None:
            self._opening = None
            opening.end()
            if isinstance(opening.found, Connection):
                self._send(self._connections.adopt(self.ask.destination, opening.found))
            else:
                self._fail(opening.found)
        if self.connection is not None and not self.done:
            self._receive(self.connection)

    def wait(self) -> Any:
        """The answer, waited for as long as a request may take from now on; for one that was sent."""
        if not self.done:
            assert self.connection is not None
            return self.connection.wait(self.number, timeout_ms=self._connections.allowed_ms(self.ask))
        return self.result()

    def give_up(self) -> None:
        if self._opening is not None:
            self._opening.give_up()
            self._opening = None
        if self.connection is not None:
            self.connection.forget(self.number)
        self._fail(ConnectionLost(f"the request to {self.ask.destination} was given up"))

    def result(self) -> Any:
        if self.connection is not None and self.connection.holds(self.number):
            return self.connection.wait(self.number)
        assert self.fault is not None
        raise self.fault

    def _send(self, connection: Connection) -> None:
        ask = self.ask
        try:
            version = connection.choose(ask.request, ask.min_version, ask.max_version)
            self.number = connection.send(ask.build(version), version, ask.response)
        except (ClientError, ApiError) as fault:
            self._fail(fault)
            return
        self.connection = connection
        self._due_ms = now_ms() + self._connections.allowed_ms(ask)

    def _receive(self, connection: Connection) -> None:
        """Take in what has come. A request is late where nothing came for as long as it may take."""
        came = False
        try:
            if connection.fileno() >= 0 and not connection.holds(self.number):
                came = connection.receive_now()
        except ClientError as fault:
            self._fail(fault)
            return
        if connection.holds(self.number):
            self.done = True
        elif connection.fileno() < 0:
            self._fail(ConnectionLost(f"the connection to {self.ask.destination} was closed"))
        elif came:
            self._due_ms = now_ms() + self._connections.allowed_ms(self.ask)
        elif now_ms() >= self._due_ms:
            connection.close()
            allowed = self._connections.allowed_ms(self.ask)
            self._fail(RequestTimedOut(f"{self.ask.destination} did not answer within {allowed:.0f} ms"))

    def _fail(self, fault: Fault) -> None:
        if not self.done:
            self.fault, self.done = fault, True


class Aside(Begun):
    """A story that goes on beside the one that began it; it awaits requests and pauses only."""

    def __init__(self, story: ClientStory[Any], connections: Connections) -> None:
        self._story = story
        self._connections = connections
        self._alone = False
        self._requests: Sequence[Started] = ()
        self._until_ms = float("-inf")
        self._value: Any = None
        self._step(None)

    @property
    def due_ms(self) -> float:
        return min([self._until_ms, *(each.due_ms for each in self._requests if not each.done)])

    def sockets(self) -> list[HasDescriptor]:
        return [waited for each in self._requests for waited in each.sockets()]

    def advance(self) -> None:
        while not self.done:
            for each in self._requests:
                each.advance()
            if not all(each.done for each in self._requests) or (not self._requests and now_ms() < self._until_ms):
                return
            answers = [_outcome(each) for each in self._requests]
            self._step(answers[0] if self._alone else answers)

    def give_up(self) -> None:
        for each in self._requests:
            each.give_up()
        self._story.close()
        self._end(None, ConnectionLost("the story was given up"))

    def result(self) -> Any:
        if self.fault is not None:
            raise self.fault
        return self._value

    def _step(self, answer: Any) -> None:
        """Drive the story to the next effect, and begin that."""
        try:
            failed = self._alone and isinstance(answer, Exception)
            effect = self._story.throw(answer) if failed else self._story.send(answer)
        except StopIteration as end:
            self._end(end.value, None)
            return
        except (ClientError, ApiError) as fault:
            self._end(None, fault)
            return
        assert isinstance(effect, (Ask, AskAll, Pause))
        self._requests, self._until_ms, self._alone = (), float("inf"), isinstance(effect, Ask)
        if isinstance(effect, Pause):
            self._until_ms = now_ms() + effect.ms
        else:
            asks = [effect] if isinstance(effect, Ask) else effect.asks
            kept = self._connections
            self._requests = [Started(ask, kept, kept.usable(ask.destination)) for ask in asks]
            if not asks:
                self._until_ms = float("-inf")

    def _end(self, value: Any, fault: Fault | None) -> None:
        if not self.done:
            self._value, self.fault, self.done = value, fault, True
            self._requests = ()


def _outcome(request: Started) -> Any:
    try:
        return request.result()
    except (ClientError, ApiError) as fault:
        return fault
