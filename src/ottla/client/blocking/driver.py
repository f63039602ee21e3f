"""The driver that carries out the effects of stories over blocking connections."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ottla.client.blocking.sockets import Connection, now_ms, wait_readable
from ottla.client.blocking.started import Aside, Begun, Started
from ottla.client.core.effects import (
    Ask,
    AskAll,
    Begin,
    Drop,
    Effect,
    FeaturesOf,
    Finish,
    First,
    Pause,
    Start,
    VersionsOf,
)
from ottla.client.errors import ClientError
from ottla.client.model import ClientSettings, Destination
from ottla.kernel.errors import ApiError

T = TypeVar("T")


class Driver:
    """Carries out the effects of stories, over connections kept per destination. One story at a time.

    A forked process starts without connections, also where its parent had some open.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._connections: dict[Destination, Connection] = {}
        self._begun: set[Begun] = set()
        """Requests and stories that were started, and whose result is not taken yet."""
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

    def connection(self, where: Destination) -> Connection:
        """The open connection to a destination, made where there is none."""
        known = self.usable(where)
        return self.adopt(where, self.open(where)) if known is None else known

    def usable(self, where: Destination) -> Connection | None:
        """The open connection to a destination, if there is one."""
        if self._process != os.getpid():
            self._connections, self._begun = {}, set()
            self._process = os.getpid()
        known = self._connections.get(where)
        if known is not None and not known.usable():
            known.close()
            return None
        return known

    def open(self, where: Destination) -> Connection:
        """A new connection, which `adopt` keeps."""
        return Connection(where.host, where.port, settings=self.settings)

    def adopt(self, where: Destination, made: Connection) -> Connection:
        """Keep a new connection for further requests, or close it where there is one by now; the one that is kept."""
        known = self.usable(where)
        if known is not None:
            made.close()
            return known
        self._connections[where] = made
        return made

    def allowed_ms(self, ask: Ask[Any]) -> float:
        """The time that the answer to a request may take."""
        return ask.timeout_ms or self.settings.request_timeout_ms

    def close(self) -> None:
        """Close all connections; the next story opens new ones. A story of another thread is not waited for."""
        if self._process != os.getpid():
            self._connections, self._begun = {}, set()
        elif self._lock.acquire(blocking=False):
            try:
                for begun in self._begun:
                    begun.give_up()
                for connection in self._connections.values():
                    connection.close()
                self._connections, self._begun = {}, set()
            finally:
                self._lock.release()
        else:
            for connection in list(self._connections.values()):
                connection.interrupt()

    def start(self, ask: Ask[Any]) -> Started:
        """Send a request; `finish` takes its answer."""
        started = Started(ask, self, self.connection(ask.destination))
        if started.fault is not None:
            raise started.fault
        return started

    def finish(self, started: Started) -> Any:
        """The answer, waited for as long as it may take from now on."""
        return started.wait()

    def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Ask):
            return self.finish(self.start(effect))
        if isinstance(effect, AskAll):
            return self._all(effect.asks)
        if isinstance(effect, Pause):
            time.sleep(effect.ms / 1000)
            return None
        if isinstance(effect, Start):
            return self._begin(Started(effect.ask, self, self.usable(effect.ask.destination)))
        if isinstance(effect, Begin):
            return self._begin(Aside(effect.story, self))
        if isinstance(effect, Finish):
            return self._finish(effect.handle)  # type: ignore[arg-type]
        if isinstance(effect, Drop):
            self._drop(effect.handle)  # type: ignore[arg-type]
            return None
        if isinstance(effect, First):
            return self._first(effect)
        if isinstance(effect, FeaturesOf):
            return dict(self.connection(effect.destination).features)
        assert isinstance(effect, VersionsOf)
        return dict(self.connection(effect.destination).api_versions)

    def _begin(self, begun: Begun) -> Begun:
        self._begun.add(begun)
        return begun

    def _first(self, effect: First) -> Begun | None:
        """The first that is done; what is not goes on as far as it can meanwhile."""
        handles: Sequence[Begun] = effect.handles  # type: ignore[assignment]
        until_ms = now_ms() + effect.timeout_ms
        while True:
            for handle in handles:
                handle.advance()
                if handle.done:
                    return handle
            left_ms = until_ms - now_ms()
            if left_ms <= 0:
                return None
            due_ms = min([left_ms, *(handle.due_ms - now_ms() for handle in handles)])
            wait_readable([waited for handle in handles for waited in handle.sockets()], max(due_ms, 0))

    def _finish(self, begun: Begun) -> Any:
        while not begun.done:
            self._first(First([begun], self.settings.request_timeout_ms))
        self._begun.discard(begun)
        return begun.result()

    def _drop(self, begun: Begun) -> None:
        begun.give_up()
        self._begun.discard(begun)

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
