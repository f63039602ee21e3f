"""The IMAP source: messages of a mailbox by their UIDs, which only grow."""

from __future__ import annotations

import asyncio
import imaplib
import re
import ssl
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from ottla.connect import data
from ottla.connect.checks import between, non_empty_text, one_of
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import ConfigException, ConnectException, DataException, RetriableException
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, Offset, SourceConnector, SourceOffset, SourcePartition, SourceTask
from ottla.connect.plugins.mail.message import attachment_options, place_of, values_of
from ottla.connect.plugins.polling import PollingSource, PollingTask, Position
from ottla.connect.records import SourceRecord

T = TypeVar("T")
KEEP, SEEN, DELETE = "keep", "seen", "delete"
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_PORTS: Final = {"tls": 993, "starttls": 143, "none": 143}
_SIZE: Final = re.compile(rb"RFC822\.SIZE (\d+)")


class ImapSourceConnector(SourceConnector):
    """Reads a mailbox."""

    java_class = "ottla.connect.ImapSourceConnector"
    version = KAFKA_VERSION
    topic_option = "topic"
    OPTIONS = ConfigDef(
        Option("imap.host", Type.STRING, importance=_HIGH, doc="The server.", check=non_empty_text),
        Option("imap.user", Type.STRING, importance=_HIGH, doc="Who logs in.", check=non_empty_text),
        Option("imap.password", Type.PASSWORD, importance=_HIGH, doc="The password."),
        Option("imap.mailbox", Type.STRING, "INBOX", _HIGH, "The mailbox.", non_empty_text),
        Option("topic", Type.STRING, importance=_HIGH, doc="The topic of the records.", check=non_empty_text),
        Option("after", Type.STRING, KEEP, _HIGH, "What becomes of a message once it is in Kafka: it is kept as it is, "
               "marked as seen, or deleted.", one_of(KEEP, SEEN, DELETE)),
        Option("imap.security", Type.STRING, "tls", _MEDIUM, "tls, starttls, or none.", one_of(*_PORTS)),
        Option("imap.port", Type.INT, 0, _MEDIUM, "The port; 0: 993 with tls, else 143.", between(0, 65535)),
        Option("poll.interval.ms", Type.INT, 60_000, _MEDIUM, "The time between two looks.", between(1)),
        Option("imap.timeout.ms", Type.INT, 30_000, _LOW, "The longest wait for an answer.", between(1)),
        Option("mail.max.bytes", Type.INT, 32 << 20, _LOW, "A longer message becomes a refused record.", between(1)),
        Option("batch.size", Type.INT, 20, _LOW, "The most messages of one read.", between(1)),
        *attachment_options(),
    )  # fmt: skip

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """One task: a mailbox has one order."""
        cls.OPTIONS.parse(config)
        return [dict(config)]

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        options = cls.OPTIONS.parse(config)
        return PollingTask(ImapSource(options), interval_ms=options["poll.interval.ms"])

    @classmethod
    def exactly_once(cls, config: Config) -> bool:
        """UIDs only grow, and an offset counts the parts of a message."""
        return True

    @classmethod
    def check_offsets(cls, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Offsets name a message and its last part that is in Kafka."""
        for partition, offset in offsets:
            if set(partition) != {"server", "user", "mailbox", "uidvalidity"}:
                raise ConfigException("A partition has server, user, mailbox and uidvalidity: take it from the offsets")
            for name in ("uid", "parts", "last") if offset is not None else ():
                kind = bool if name == "last" else int
                if offset is not None and type(offset.get(name)) is not kind:
                    raise ConfigException("An offset has uid and parts, which are numbers, and last, true or false")


class ImapSource(PollingSource):
    """One mailbox. imaplib blocks, so it is called in a thread of the source's own."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._place = place_of(options["claim.store"])
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="imap")
        self._connection: imaplib.IMAP4 | None = None
        self._bytes = 0
        """The content of the messages of one read; with more than one may have, it ends."""
        self._whole: list[int] = []
        """The UIDs of messages that were read whole and are not cleared away yet."""

    async def partitions(self) -> Collection[SourcePartition]:
        """The mailbox, as long as its UIDs mean the same messages."""
        validity = await self._apart(self._validity)
        names = {"server": self._options["imap.host"], "user": self._options["imap.user"]}
        return [{**names, "mailbox": self._options["imap.mailbox"], "uidvalidity": validity}]

    async def poll(self, position: Position) -> list[SourceRecord]:
        """The messages behind a UID."""
        return await self._apart(partial(self._read, position.offset or {"uid": 0, "parts": 0, "last": True}))

    async def committed(self, offsets: Sequence[Offset]) -> None:
        """Mark or delete the messages that are in Kafka to their end."""
        if self._options["after"] == KEEP:
            return
        for _, offset in offsets:
            await self._apart(partial(self._clear, offset["uid"] if offset["last"] else offset["uid"] - 1))

    async def close(self) -> None:
        """Log out, once a call in progress has ended."""
        await self._apart(self._end)
        self._thread.shutdown()

    def _validity(self) -> int:
        def ask(connection: imaplib.IMAP4) -> int:
            found = connection.response("UIDVALIDITY")[1]
            if not found or found[0] is None:
                found = connection.status(_quoted(self._options["imap.mailbox"]), "(UIDVALIDITY)")[1]
            digits = re.findall(rb"\d+", found[-1] if isinstance(found[-1], bytes) else b"")
            if not digits:
                raise ConnectException(f"{self._options['imap.host']} has no UIDVALIDITY: messages have no lasting ids")
            return int(digits[-1])

        return self._guarded(ask)

    def _read(self, offset: SourceOffset) -> list[SourceRecord]:
        def ask(connection: imaplib.IMAP4) -> list[SourceRecord]:
            first = offset["uid"] + (1 if offset["last"] else 0)
            connection.noop()
            found = _answer(connection.uid("SEARCH", f"UID {max(first, 1)}:*"))
            uids = sorted(int(each) for part in found if part for each in part.split())
            made: list[SourceRecord] = []
            self._bytes = 0
            for uid in [each for each in uids if each >= first][: self._options["batch.size"]]:
                records = self._message(connection, uid)
                made += records[offset["parts"] :] if uid == offset["uid"] else records
                if self._bytes >= self._options["mail.max.bytes"]:
                    break
            return made

        return self._guarded(ask)

    def _message(self, connection: imaplib.IMAP4, uid: int) -> list[SourceRecord]:
        """The records of one message; a single one with a fault where it cannot be one."""
        content: bytes | str = f"the message {uid}"
        try:
            content = self._content(connection, uid)
            values = list(values_of(content, self._options["mail.attachments"], self._place))
        except DataException as fault:
            return [self._record(uid, 1, content, last=True, fault=fault)]
        self._whole.append(uid)
        count = len(values)
        return [self._record(uid, at, each, last=at == count) for at, each in enumerate(values, 1)]

    def _record(
        self, uid: int, parts: int, value: Any, *, last: bool, fault: DataException | None = None
    ) -> SourceRecord:
        key = value.get("message_id") if isinstance(value, dict) else None
        return SourceRecord(
            self._options["topic"], key_schema=None if key is None else data.STRING, key=key, value=value,
            source_offset={"uid": uid, "parts": parts, "last": last}, fault=fault,
        )  # fmt: skip

    def _content(self, connection: imaplib.IMAP4, uid: int) -> bytes:
        most = self._options["mail.max.bytes"]
        sizes = [_SIZE.search(each) for each in _flat(_answer(connection.uid("FETCH", str(uid), "(RFC822.SIZE)")))]
        size = next((int(each[1]) for each in sizes if each), 0)
        if size > most:
            raise DataException(f"the message {uid} has {size:,} bytes, more than mail.max.bytes={most}")
        for part in _answer(connection.uid("FETCH", str(uid), "(BODY.PEEK[])")):
            if isinstance(part, tuple):
                self._bytes += len(part[1])
                return bytes(part[1])
        raise DataException(f"the message {uid} was deleted while it was read")

    def _clear(self, through: int) -> None:
        """Mark or delete messages. Only those that this task has read whole: what was refused stays."""
        uids = [each for each in self._whole if each <= through]
        if not uids:
            return
        flag = r"(\Deleted)" if self._options["after"] == DELETE else r"(\Seen)"
        listed = ",".join(str(each) for each in uids)

        def ask(connection: imaplib.IMAP4) -> None:
            _answer(connection.uid("STORE", listed, "+FLAGS.SILENT", flag))
            if self._options["after"] == DELETE:
                # Without UIDPLUS an expunge takes along what others have marked as deleted.
                _answer(
                    connection.uid("EXPUNGE", listed) if "UIDPLUS" in connection.capabilities else connection.expunge()
                )

        self._guarded(ask)
        self._whole = [each for each in self._whole if each > through]

    def _guarded(self, ask: Callable[[imaplib.IMAP4], T]) -> T:
        """Ask over a connection that is kept open; a new one is made after a fault."""
        try:
            if self._connection is None:
                self._connection = self._opened()
            return ask(self._connection)
        except (OSError, imaplib.IMAP4.abort) as fault:
            self._end()
            raise RetriableException(f"{self._options['imap.host']}: {fault or type(fault).__name__}") from fault
        except imaplib.IMAP4.error as fault:
            self._end()
            raise ConnectException(f"{self._options['imap.host']}: {fault}") from fault

    def _opened(self) -> imaplib.IMAP4:
        host, security = self._options["imap.host"], self._options["imap.security"]
        port, timeout = self._options["imap.port"] or _PORTS[security], self._options["imap.timeout.ms"] / 1000
        context = ssl.create_default_context()
        if security == "tls":
            made: imaplib.IMAP4 = imaplib.IMAP4_SSL(host, port, ssl_context=context, timeout=timeout)
        else:
            made = imaplib.IMAP4(host, port, timeout=timeout)
            if security == "starttls":
                made.starttls(context)
        made.login(self._options["imap.user"], self._options["imap.password"].value)
        mailbox = self._options["imap.mailbox"]
        kind, answer = made.select(_quoted(mailbox), readonly=self._options["after"] == KEEP)
        if kind != "OK":
            raise ConnectException(f"{host} does not open the mailbox {mailbox}: {_text(answer)}")
        return made

    def _end(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.shutdown()

    async def _apart(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, ask)


def _answer(found: tuple[str, list[Any]]) -> list[Any]:
    kind, content = found
    if kind != "OK":
        raise imaplib.IMAP4.error(_text(content))
    return content


def _flat(content: list[Any]) -> list[bytes]:
    return [each[0] if isinstance(each, tuple) else each for each in content if each is not None]


def _text(content: list[Any]) -> str:
    return b" ".join(_flat(content)).decode("utf-8", "replace")


def _quoted(mailbox: str) -> str:
    escaped = mailbox.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
