"""The driver that carries out the effects of stories over asyncio connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from ottla.client.aio.connection import AsyncConnection
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
from ottla.client.errors import ClientError, ConnectionLost
from ottla.client.model import ClientSettings, Destination
from ottla.kernel.errors import ApiError

T = TypeVar("T")


def now_ms() -> float:
    return time.monotonic() * 1000


def _is_cancelled() -> bool:
    """In a handler of CancelledError: True if it means this task, and not what the task waited for."""
    waiting = asyncio.current_task()
    return waiting is not None and waiting.cancelling() > 0


class Driver:
    """Carries out the effects of stories, over connections kept per destination; several stories may run at once."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._connections: dict[Destination, asyncio.Task[AsyncConnection]] = {}
        self._begun: set[asyncio.Task[Any]] = set()
        """Requests and stories that were started, and are not done."""

    async def run(self, story: Coroutine[Effect, Any, T]) -> T:
        """Drive a story to its end."""
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
                answer = await self._carry_out(effect)
            except (ClientError, ApiError) as failed:
                fault = failed
            except BaseException:
                story.close()
                raise

    async def connection(self, where: Destination) -> AsyncConnection:
        """The open connection to a destination, made where there is none."""
        task = self._connections.get(where)
        if task is None or (task.done() and (task.cancelled() or task.exception() or not task.result().usable)):
            task = asyncio.ensure_future(AsyncConnection.open(where, self.settings))
            self._connections[where] = task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise ConnectionLost(f"the connection to {where} was closed while it was made") from None

    async def close(self) -> None:
        for begun in self._begun:
            begun.cancel()
        for task in self._connections.values():
            if not task.done():
                task.cancel()
            elif not task.cancelled() and task.exception() is None:
                task.result().close()
        self._connections = {}

    async def ask(self, ask: Ask[Any]) -> Any:
        connection = await self.connection(ask.destination)
        await connection.renewed()
        version = connection.choose(ask.request, ask.min_version, ask.max_version)
        future = connection.send(ask.build(version), version, ask.response)
        return await connection.wait(future, timeout_ms=ask.timeout_ms)

    async def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Ask):
            return await self.ask(effect)
        if isinstance(effect, AskAll):
            return await asyncio.gather(*(self._attempt(partial(self.ask, ask)) for ask in effect.asks))
        if isinstance(effect, Pause):
            return await asyncio.sleep(effect.ms / 1000)
        if isinstance(effect, Start):
            return self._begin(partial(self.ask, effect.ask))
        if isinstance(effect, Begin):
            begun = self._begin(partial(self.run, effect.story))
            begun.add_done_callback(lambda _: effect.story.close())  # it was not begun if it is cancelled at once
            return begun
        if isinstance(effect, Drop):
            effect.handle.cancel()  # type: ignore[attr-defined]
            return None
        if isinstance(effect, First):
            tasks: list[Any] = list(effect.handles)
            done, _ = await asyncio.wait(
                tasks, timeout=max(effect.timeout_ms, 0) / 1000, return_when=asyncio.FIRST_COMPLETED
            )
            return next((task for task in tasks if task in done), None)
        if isinstance(effect, Finish):
            task: Any = effect.handle
            try:
                answer = await task
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                raise ConnectionLost("connections were closed while a request was under way") from None
            if isinstance(answer, Exception):
                raise answer
            return answer
        if isinstance(effect, FeaturesOf):
            return dict((await self.connection(effect.destination)).features)
        assert isinstance(effect, VersionsOf)
        return dict((await self.connection(effect.destination)).api_versions)

    def _begin(self, work: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
        begun = asyncio.create_task(self._attempt(work))
        self._begun.add(begun)
        begun.add_done_callback(self._begun.discard)
        return begun

    async def _attempt(self, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await work()
        except (ClientError, ApiError) as fault:
            return fault
