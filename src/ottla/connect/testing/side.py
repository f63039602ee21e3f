"""The other side of a connector under test, what the checks have found, and a guard over the event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.connect.config_def import Type
from ottla.connect.plugins.base import SinkConnector, SourceConnector, SourceTask
from ottla.connect.records import SinkRecord

T = TypeVar("T")
_SECRET_WORDS = ("password", "secret", "token")
_LOOK_S = 0.02


class PluginFaults(AssertionError):
    """The defects of a connector: one sentence a line."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = tuple(sentences)


@dataclass(frozen=True, slots=True)
class OtherSide:
    """The files, tables or services of a connector. Each check makes them anew, with the same names."""

    config: Mapping[str, str]
    """The connector's options, as text."""
    written: Callable[[], Collection[Any]] = tuple
    """For sinks: what the other side holds for good."""
    trouble: Callable[[], AbstractContextManager[object]] | None = None
    """Makes the other side fail inside a `with` block."""
    feed: Callable[[SourceTask], Awaitable[object]] | None = None
    """For sources that are sent to: sends all records. It runs beside the reading."""


MakeSide = Callable[[], OtherSide]


def sink_records(values: Sequence[Any], *, topic: str = "t", partitions: int = 2) -> list[SinkRecord]:
    """A record for each value, in turn for each partition, with offsets."""
    return [SinkRecord(topic, at % partitions, value=value, offset=at // partitions) for at, value in enumerate(values)]


class Findings:
    """The sentences of all checks, each once."""

    def __init__(self, connector: type[SourceConnector | SinkConnector], patience_s: float) -> None:
        self.connector, self.patience_s = connector, patience_s
        self.sentences: list[str] = []

    def say(self, sentence: str) -> None:
        """Note what is wrong."""
        if sentence not in self.sentences:
            self.sentences.append(sentence)

    def check_options(self) -> None:
        """Every option is explained, and secrets are of the type that is never shown."""
        for option in self.connector.options():
            if not option.doc:
                self.say(f"the option {option.name} has no doc: say in a sentence what it does")
            secret = any(word in option.name.lower() for word in _SECRET_WORDS)
            if secret and option.type is Type.STRING:
                self.say(f"the option {option.name} is a STRING: make it a PASSWORD, or REST shows the secret")

    def run(self, story: Callable[[], Awaitable[T]]) -> T | None:
        """Run one story in a new event loop, under guard; None where it raised, which becomes a sentence."""
        try:
            return asyncio.run(self._guarded(story))
        except Stopped as stopped:
            self.say(str(stopped))
        except Exception as fault:
            last = traceback.extract_tb(fault.__traceback__)[-1]
            self.say(f"{type(fault).__name__} in {last.filename}:{last.lineno}: {fault}")
        return None

    def task(self, side: OtherSide) -> Any:
        """The only task of the connector."""
        own = self.connector.tasks(dict(side.config), 1)
        if len(own) != 1:
            raise Stopped(f"tasks(config, 1) gave {len(own)} configurations: at most one was asked for")
        return self.connector.task(own[0])

    async def closed(self, task: Any) -> None:
        """Close a task: it must do so in time, and without a fault."""
        await self.in_time(task.close(), "close() did not return: close what it waits for first")

    async def closed_unused(self, task: Any, missing: str) -> None:
        """Close a task that was not started, or not opened."""
        try:
            await self.closed(task)
        except Stopped:
            raise
        except Exception as fault:
            raise Stopped(f"close() of a task that was not {missing} fails: {type(fault).__name__}: {fault}") from fault

    def require_restart(self, fault: Exception) -> None:
        """Stopped if the task would not be begun again after a fault of the other side."""
        if not self.connector.restarts(fault):
            raise Stopped(
                f"the other side failed for a while and the task would not be begun again after "
                f"{type(fault).__name__}: {fault}; raise RetriableException"
            ) from fault

    async def in_time(self, what: Awaitable[T], otherwise: str) -> T:
        """The result, or Stopped with a sentence where it does not come in time."""
        try:
            return await asyncio.wait_for(what, self.patience_s)
        except TimeoutError as fault:
            raise Stopped(otherwise) from fault

    async def _guarded(self, story: Callable[[], Awaitable[T]]) -> T:
        guard = _Guard(self.patience_s)
        ticking = asyncio.ensure_future(guard.tick())
        try:
            return await story()
        finally:
            ticking.cancel()
            if place := guard.end():
                self.say(f"the event loop stood still in {place}: call what blocks by asyncio.to_thread")

    def result(self) -> None:
        """Raise `PluginFaults` if something is wrong."""
        if self.sentences:
            raise PluginFaults(self.sentences)


class Stopped(Exception):
    """A check cannot go on; the message is a sentence about the connector."""


class _Guard:
    """A thread that looks whether the event loop still turns, and where it stands if it does not."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._loop_thread = threading.get_ident()
        self._seen_s = time.monotonic()
        self._ended = threading.Event()
        self._place: str | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    async def tick(self) -> None:
        """Show that the loop turns."""
        while True:
            self._seen_s = time.monotonic()
            await asyncio.sleep(_LOOK_S)

    def end(self) -> str | None:
        """The line where the loop stood still."""
        self._ended.set()
        self._thread.join()
        return self._place

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            if time.monotonic() - self._seen_s > self._patience_s and self._place is None:
                frame = sys._current_frames().get(self._loop_thread)
                last = traceback.extract_stack(frame)[-1]
                self._place = f"{last.filename}:{last.lineno} ({last.name})"
