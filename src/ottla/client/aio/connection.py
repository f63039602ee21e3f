"""Connections to brokers over asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from typing import Any

from ottla.client.core.link import Link, api_of, api_versions_request, response_of
from ottla.client.core.login import ENDLESS, LoginSession, login, shown_token
from ottla.client.errors import (
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    ProtocolViolation,
    RequestTimedOut,
    refused,
)
from ottla.client.model import ClientSettings, Destination
from ottla.kernel.errors import ErrorCode


class _Frames(asyncio.BufferedProtocol):
    """Feeds a link and hands each answer to the request that waits for it."""

    def __init__(self, link: Link, where: str) -> None:
        self.link = link
        self.where = where
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.transport: asyncio.Transport | None = None
        self.lost: ClientError | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.link.inbox.target()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frame = self.link.inbox.received(nbytes)
            if frame is None:
                return
            number, message = self.link.answer(frame)
        except ProtocolViolation as fault:
            self._fail(fault)
            return
        future = self.waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(ConnectionLost(f"{self.where} closed the connection{f': {exc}' if exc else ''}"))

    def give_up(self, fault: ClientError) -> None:
        """End the connection now, also where bytes wait for a peer that reads nothing more."""
        self._fail(fault)
        if self.transport is not None:
            self.transport.abort()

    def _fail(self, fault: ClientError) -> None:
        self.lost = self.lost or fault
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(fault)
        self.waiting = {}
        if self.transport is not None:
            self.transport.close()


class AsyncConnection:
    """One connection to one broker; `open` makes it and exchanges ApiVersions."""

    def __init__(self, frames: _Frames, settings: ClientSettings) -> None:
        self.settings = settings
        self._frames = frames
        self._link = frames.link
        self._session = ENDLESS
        self._renewal: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, where: Destination, settings: ClientSettings) -> AsyncConnection:
        frames = _Frames(Link(settings.client_id), str(where))
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(settings.connect_timeout_ms / 1000):
                context = settings.security.context()
                await loop.create_connection(lambda: frames, where.host, where.port, ssl=context)
        except (OSError, TimeoutError) as fault:
            raise BrokerUnreachable(
                f"cannot connect to {where}: {getattr(fault, 'strerror', None) or fault}"
            ) from fault
        made = cls(frames, settings)
        try:
            await made._negotiate(where)
            if settings.security.has_sasl:
                await made._log_in(str(where))
        except BaseException:
            made.close()
            raise
        return made

    @property
    def api_versions(self) -> Mapping[int, tuple[int, int]]:
        """The versions that the broker announces: key -> (first, last)."""
        return self._link.versions

    @property
    def features(self) -> Mapping[str, int]:
        """The levels of features that the cluster has finalized, by name, as the broker says."""
        return self._link.features

    @property
    def usable(self) -> bool:
        return self._frames.lost is None

    async def renewed(self) -> None:
        """Log in again where the session is about to end (KIP-368); requests are sent at once after it."""
        while self._session.is_ending or self._renewal is not None:
            if self._renewal is None:
                self._renewal = asyncio.ensure_future(self._renew())
            await asyncio.shield(self._renewal)

    def choose(self, request: type[Any], least: int = 0, most: int = 32767) -> int:
        """The newest version of an API that both sides speak; raises UnsupportedVersion."""
        return self._link.choose(api_of(request), least, most)

    async def request(self, message: Any, version: int | None = None, *, timeout_ms: float | None = None) -> Any:
        """Send a request, return its answer. `version` None: the newest that both sides speak."""
        return await self.wait(self.send(message, version), timeout_ms=timeout_ms)

    def send(
        self, message: Any, version: int | None = None, response: type[Any] | None = None
    ) -> asyncio.Future[Any] | None:
        """Send a request; its answer comes in the future (None: Produce with acks=0 has none)."""
        if self._frames.lost is not None:
            raise self._frames.lost
        api = api_of(type(message))
        chosen = self._link.choose(api) if version is None else version
        answered = not (api.key == 0 and message.acks == 0)
        number, frame = self._link.request(
            api, message, chosen, response or response_of(type(message)), answered=answered
        )
        assert self._frames.transport is not None
        self._frames.transport.write(frame)
        if not answered:
            return None
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._frames.waiting[number] = future
        return future

    async def wait(self, future: asyncio.Future[Any] | None, *, timeout_ms: float | None = None) -> Any:
        """The answer; a request that is not answered in time ends the connection."""
        if future is None:
            return None
        allowed = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(allowed / 1000):
                return await future
        except TimeoutError as fault:
            late = RequestTimedOut(f"{self._frames.where} did not answer within {allowed:.0f} ms")
            self._frames.give_up(late)
            raise late from fault

    def close(self) -> None:
        if self._frames.transport is not None:
            self._frames.transport.close()

    async def _log_in(self, where: str) -> None:
        security = self.settings.security
        token = None if security.tokens is None else await asyncio.to_thread(shown_token, security, where)
        story = login(security, where, token)
        answer = None
        while True:
            # Kerberos waits for its server.
            asked = _next(story, answer) if security.tickets is None else await asyncio.to_thread(_next, story, answer)
            if isinstance(asked, LoginSession):
                self._session = asked
                return
            answer = await self.request(asked, 1)

    async def _renew(self) -> None:
        """The connection is of no use if this fails."""
        self._session = ENDLESS
        try:
            await self._log_in(self._frames.where)
        except BaseException:
            self.close()
            raise
        finally:
            self._renewal = None

    async def _negotiate(self, where: Destination) -> None:
        version = 4
        for _ in range(2):
            answer = await self.request(api_versions_request(), version)
            if answer.error_code == ErrorCode.NONE:
                self._link.learn(answer)
                return
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
            version = min(3, next((each.max_version for each in answer.api_keys if each.api_key == 18), 0))
        raise refused(answer.error_code, f"{where} refused ApiVersions")


def _next(story: Generator[Any, Any, LoginSession], answer: Any) -> Any:
    """The story's next request, or its end; StopIteration cannot be raised out of a thread."""
    try:
        return story.send(answer)
    except StopIteration as end:
        return end.value
