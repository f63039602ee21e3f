"""The syslog source: its options, and the task that listens on UDP and TCP.

TCP is slowed down when Kafka is: its senders wait. UDP cannot wait: datagrams beyond the bound are dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ottla.connect import data
from ottla.connect.checks import between, non_empty_text, one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import RetriableException
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, OffsetReader, SourceConnector, SourceTask
from ottla.connect.plugins.listening import Full, Inbox, TaskEnded, record_time
from ottla.connect.plugins.syslog.framing import BadFrame, Frames
from ottla.connect.plugins.syslog.message import parsed, timestamp_ms
from ottla.connect.records import Header, SourceRecord

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
SENDER_HEADER: Final = "syslog.sender"
"""The header of every record with the address that its message came from."""
_PIECE: Final = 1 << 16
_TELL_S: Final = 10.0
log = logging.getLogger("ottla.connect")


def _zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as fault:
        raise ValueError(f"no such time zone: {fault}") from None


class SyslogSourceConnector(SourceConnector):
    """Takes syslog messages."""

    java_class = "ottla.connect.SyslogSourceConnector"
    version = KAFKA_VERSION
    topic_option = "topic"
    OPTIONS = ConfigDef(
        Option("topic", Type.STRING, importance=_HIGH, doc="The topic of the records.", check=non_empty_text),
        Option("listen.host", Type.STRING, "127.0.0.1", _HIGH, "The address to listen at; 0.0.0.0 is all of them.",
               non_empty_text),
        Option("listen.port", Type.INT, 5514, _HIGH, "The port of both; 0 takes a free one, which the log names.",
               between(0, 65535)),
        Option("listen.protocols", Type.STRING, "both", _HIGH, "udp, tcp or both.", one_of("udp", "tcp", "both")),
        Option("format", Type.STRING, "parsed", _HIGH, "parsed: objects. raw: text as it came.",
               one_of("parsed", "raw")),
        Option("timezone", Type.STRING, "UTC", _MEDIUM, "The zone of times without one, as RFC 3164 has them.",
               understood(_zone)),
        Option("max.message.bytes", Type.INT, 65_536, _MEDIUM, "A longer message ends its TCP connection.", between(1)),
        Option("max.pending", Type.INT, 20_000, _MEDIUM, "With so many records on their way into Kafka TCP waits, and "
               "UDP is dropped.", between(1)),
    )  # fmt: skip

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        return SyslogTask(cls.OPTIONS.parse(config))


class SyslogTask(SourceTask):
    """One port. Records have the sender's host as their key, so each host keeps its order."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options, self._zone = options, ZoneInfo(options["timezone"])
        self._inbox = Inbox(options["max.pending"])
        self._server: asyncio.Server | None = None
        self._datagrams: asyncio.DatagramTransport | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        """The port, once it listens."""
        self.dropped = 0
        """Datagrams for which there was no room."""
        self._told_s = 0.0

    async def start(self, offsets: OffsetReader) -> None:
        """Listen."""
        host, port, kinds = (self._options[f"listen.{name}"] for name in ("host", "port", "protocols"))
        loop = asyncio.get_running_loop()
        try:
            if kinds != "udp":
                self._server = await asyncio.start_server(self._serve, host, port)
                port = self._server.sockets[0].getsockname()[1]
            if kinds != "tcp":
                self._datagrams, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), (host, port))
                port = self._datagrams.get_extra_info("sockname")[1]
        except OSError as fault:
            raise RetriableException(f"{fault.strerror or fault}: free port {port}, or set listen.port") from fault
        self.port = port
        log.info("listening for syslog at %s:%d (%s)", host, port, kinds)

    async def read(self) -> list[SourceRecord]:
        """All messages that came."""
        return await self._inbox.take()

    def acknowledged(self, records: list[SourceRecord]) -> None:  # type: ignore[override]
        """Make room for more."""
        self._inbox.acknowledged(records)

    async def close(self) -> None:
        """End all connections."""
        if self._datagrams is not None:
            self._datagrams.close()
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        if self._inbox.pending:
            log.warning("syslog: %d messages came and are lost: syslog cannot repeat them", self._inbox.pending)
        self._inbox.end()
        if self.dropped:
            log.warning("syslog: %d datagrams were dropped since the start: Kafka was slower", self.dropped)

    def take_datagram(self, content: bytes, sender: str) -> None:
        """Take one datagram, or count it as dropped."""
        try:
            self._inbox.offer([self._record(content, sender)])
        except Full:
            self.dropped += 1
            if time.monotonic() - self._told_s > _TELL_S:
                self._told_s = time.monotonic()
                log.warning("syslog: %d datagrams were dropped so far: Kafka is slower; use TCP", self.dropped)
        except TaskEnded:
            pass  # the socket is being closed

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        sender = writer.get_extra_info("peername")[0]
        try:
            await self._take_stream(reader, sender)
        except BadFrame as fault:
            log.warning("syslog: the connection of %s is ended: %s", sender, fault)
        except (OSError, TaskEnded, asyncio.CancelledError) as fault:
            log.debug("syslog: the connection of %s ended: %s", sender, fault or type(fault).__name__)
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _take_stream(self, reader: asyncio.StreamReader, sender: str) -> None:
        frames = Frames(self._options["max.message.bytes"])
        while piece := await reader.read(_PIECE):
            await self._take_all(frames.feed(piece), sender)
        await self._take_all(frames.end(), sender)

    async def _take_all(self, contents: list[bytes], sender: str) -> None:
        for content in contents:
            record = self._record(content, sender)
            while True:
                await self._inbox.room()
                with contextlib.suppress(Full):
                    self._inbox.offer([record])
                    break

    def _record(self, content: bytes, sender: str) -> SourceRecord:
        now = datetime.now(UTC)
        made = parsed(content, now=now, zone=self._zone)
        at = record_time(timestamp_ms(made), int(now.timestamp() * 1000))
        raw = self._options["format"] == "raw"
        value = content.decode("utf-8", "backslashreplace").rstrip("\r\n\0") if raw else made
        return SourceRecord(
            self._options["topic"], key_schema=data.STRING, key=made.get("host", sender),
            value_schema=data.STRING if raw else None, value=value, timestamp=at,
            headers=(Header(SENDER_HEADER, data.STRING, sender),),
        )  # fmt: skip


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, task: SyslogTask) -> None:
        self._task = task

    def datagram_received(self, content: bytes, address: tuple[Any, ...]) -> None:
        self._task.take_datagram(content, address[0])

    def error_received(self, fault: Exception) -> None:
        log.warning("syslog: the socket reports %s", fault)
