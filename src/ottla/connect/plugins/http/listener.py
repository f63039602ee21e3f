"""Listens for requests that carry records, and answers each once its records are in Kafka."""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from ottla.connect.checks import between, non_empty_text
from ottla.connect.config_def import Importance, Option, Password, Type
from ottla.connect.errors import ConfigException, RetriableException
from ottla.connect.plugins.base import OffsetReader, SourceTask
from ottla.connect.plugins.listening import Full, Inbox, TaskEnded
from ottla.connect.records import SourceRecord
from ottla.web.exchange import HttpError, Request, Response
from ottla.web.limits import Limits
from ottla.web.server import WebServer, listening, url_of

log = logging.getLogger("ottla.connect")
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def listener_options(port: int) -> tuple[Option, ...]:
    """The options of all listeners."""
    return (
        Option("listen.port", Type.INT, port, _HIGH, "The port; 0 takes a free one, which the log names.",
               between(0, 65535)),
        Option("listen.host", Type.STRING, "127.0.0.1", _HIGH, "The address to listen at; 0.0.0.0 is all of them.",
               non_empty_text),
        Option("topic", Type.STRING, importance=_HIGH, doc="The topic of the records.", check=non_empty_text),
        Option("auth.token", Type.PASSWORD, None, _MEDIUM, "Requests have to carry it, as Authorization: Bearer."),
        Option("tls.certificate", Type.STRING, None, _MEDIUM, "The file of the certificate chain, for https.",
               non_empty_text),
        Option("tls.key", Type.STRING, None, _MEDIUM, "The file of its key.", non_empty_text),
        Option("max.body.bytes", Type.INT, 1 << 20, _MEDIUM, "A longer request is refused by 413.", between(1)),
        Option("max.pending", Type.INT, 10_000, _MEDIUM, "With so many records on their way into Kafka, requests are "
               "refused by 429.", between(1)),
        Option("ack.timeout.ms", Type.INT, 30_000, _LOW, "A request whose records are not in Kafka by then is answered "
               "by 503, and may be sent again.", between(1)),
    )  # fmt: skip


def check_listener(options: dict[str, Any]) -> None:
    """Raise `ConfigException` for options that do not go together."""
    if (options["tls.certificate"] is None) != (options["tls.key"] is None):
        raise ConfigException("tls.certificate and tls.key go together: set both or neither")


class ListenerTask(SourceTask):
    """One listener. Subclasses make the records of a request, and its answer."""

    def __init__(self, options: dict[str, Any], path: str) -> None:
        self.options, self._path = options, path
        self.url = ""
        """The address of the listener, once there is one."""
        self._inbox = Inbox(options["max.pending"])
        self._server: WebServer | None = None

    @abstractmethod
    def records(self, request: Request) -> list[SourceRecord]:
        """The records of a request; HttpError refuses it."""

    @abstractmethod
    def answer(self, request: Request, records: Sequence[SourceRecord]) -> Response:
        """The answer once all are in Kafka."""

    async def start(self, offsets: OffsetReader) -> None:
        """Listen."""
        host, tls = self.options["listen.host"], self._tls()
        try:
            bound = listening(host, self.options["listen.port"])
        except OSError as fault:
            raise RetriableException(f"{fault.strerror or fault}: free the port, or set listen.port") from fault
        self.url = url_of(host, bound, scheme="https" if tls else "http") + self._path
        log.info("listening at %s", self.url)
        limits = replace(Limits(), body_bytes=self.options["max.body.bytes"])
        self._server = WebServer(self._serve, limits=limits, ssl_context=tls)
        await self._server.open(bound)

    async def read(self) -> list[SourceRecord]:
        """All records that were sent."""
        return await self._inbox.take()

    def acknowledged(self, records: Sequence[SourceRecord]) -> None:
        """Let their senders be answered."""
        self._inbox.acknowledged(records)

    async def close(self) -> None:
        """Answer 503 to senders that wait, and listen no longer."""
        self._inbox.end()
        if self._server is not None:
            await self._server.close()

    async def _serve(self, request: Request) -> Response:
        if request.path.rstrip("/") != self._path.rstrip("/"):
            raise HttpError(404, f"HTTP 404 Not Found: there is {self._path}")
        if request.method != "POST":
            raise HttpError(405, headers=(("Allow", "POST"),))
        self._check_token(request)
        records = self.records(request)
        try:
            safe = self._inbox.offer(records)
            await asyncio.wait_for(asyncio.shield(safe), self.options["ack.timeout.ms"] / 1000)
        except Full:
            raise HttpError(429, "HTTP 429 Too Many Requests: send it again later", headers=_LATER) from None
        except (TimeoutError, TaskEnded):
            raise HttpError(503, "HTTP 503 Service Unavailable: send it again", headers=_LATER) from None
        return self.answer(request, records)

    def _check_token(self, request: Request) -> None:
        token: Password | None = self.options["auth.token"]
        if token is None:
            return
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.value.encode()):
            raise HttpError(401, headers=(("WWW-Authenticate", "Bearer"),))

    def _tls(self) -> ssl.SSLContext | None:
        if self.options["tls.certificate"] is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.options["tls.certificate"], self.options["tls.key"])
        except (OSError, ssl.SSLError) as fault:
            raise ConfigException(f"tls.certificate and tls.key cannot be used: {fault}") from None
        return context


_LATER: Final = (("Retry-After", "1"),)
