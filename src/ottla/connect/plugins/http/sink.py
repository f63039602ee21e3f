"""The HTTP sink: its options, and the task that sends records in their order."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from ottla.connect.checks import between, one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Password, Type
from ottla.connect.converters.json import JsonConverter
from ottla.connect.errors import ConfigException, ConnectException, DataException, RetriableException
from ottla.connect.java.text import text
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, RefusedRecords, SinkConnector, SinkTask
from ottla.connect.plugins.http.requests import Answer, Service
from ottla.connect.records import SinkRecord

T = TypeVar("T")
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
log = logging.getLogger("ottla.connect")


def _url(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or "$" in parts.netloc or "@" in parts.netloc:
        raise ValueError("write http://HOST/PATH or https://HOST/PATH; the host has no variable and no password")
    if not is_plain(address) or " " in address or "#" in address:
        raise ValueError("an address is ASCII without blanks and without #: write others as %XX")
    _ = parts.port  # raises ValueError unless it is a number
    if strange := [each for each in _VARIABLE.findall(address) if each not in ("topic", "key")]:
        raise ValueError(f"${{{strange[0]}}} is unknown: there are ${{topic}} and ${{key}}")


def header_list(name: str, value: Any) -> None:
    """The option is a list of headers."""
    for each in value or ():
        header, colon, content = each.partition(":")
        if not colon or not _TOKEN.fullmatch(header) or not is_plain(content):
            raise ConfigException.of(name, "[hidden]", "write NAME: VALUE in ASCII, with commas between")


def is_plain(content: str) -> bool:
    """True for printable ASCII, which a header can hold."""
    return content.isascii() and content.isprintable()


class HttpSinkConnector(SinkConnector):
    """Sends records to a web service."""

    java_class = "ottla.connect.HttpSinkConnector"
    version = KAFKA_VERSION
    OPTIONS = ConfigDef(
        Option("http.url", Type.STRING, importance=_HIGH, doc="Where records go; ${topic} and ${key} stand for the "
               "record's.", check=understood(_url)),
        Option("http.method", Type.STRING, "POST", _HIGH, "POST or PUT.", one_of("POST", "PUT")),
        Option("batch.size", Type.INT, 0, _HIGH, "0: each record is a request. More: requests are JSON arrays of so "
               "many values at most.", between(0)),
        Option("http.headers", Type.LIST, [], _MEDIUM, "Headers of all requests, as NAME: VALUE.", header_list),
        Option("http.auth", Type.STRING, "none", _MEDIUM, "How the task shows who it is.",
               one_of("none", "basic", "bearer")),
        Option("http.user", Type.STRING, None, _MEDIUM, "The user of http.auth=basic."),
        Option("http.secret", Type.PASSWORD, None, _MEDIUM, "The password of basic, the token of bearer."),
        Option("http.timeout.ms", Type.INT, 30_000, _MEDIUM, "The longest wait for a connection or an answer.",
               between(1)),
        Option("max.retries", Type.INT, 10, _MEDIUM, "How often a request that may pass is sent again.", between(0)),
        Option("retry.backoff.ms", Type.INT, 1000, _MEDIUM, "The wait before the first repetition; it doubles.",
               between(0)),
        Option("retry.backoff.max.ms", Type.INT, 60_000, _LOW, "The longest wait.", between(0)),
    )  # fmt: skip

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """As many tasks as may be: they share the partitions."""
        _checked(config)
        return [dict(config)] * most

    @classmethod
    def task(cls, config: Config) -> SinkTask:
        return HttpSinkTask(_checked(config))


def _checked(config: Config) -> dict[str, Any]:
    options = HttpSinkConnector.OPTIONS.parse(config)
    wanted = {"none": (False, False), "basic": (True, True), "bearer": (False, True)}[options["http.auth"]]
    if wanted != (options["http.user"] is not None, options["http.secret"] is not None):
        raise ConfigException("http.auth=basic needs http.user and http.secret, bearer http.secret alone, none neither")
    if options["http.auth"] == "bearer" and not is_plain(options["http.secret"].value):
        raise ConfigException("http.secret is no token: a token is printable ASCII without line ends")
    return options


class HttpSinkTask(SinkTask):
    """Sends each put at once, one request after the other; a flush has nothing left to do."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="http")
        self._service = Service(options["http.url"], options["http.timeout.ms"] / 1000)
        self._converter = JsonConverter({"schemas.enable": "false", "converter.type": "value"})
        self._headers = {"Content-Type": "application/json"} | authorization(options)
        for each in options["http.headers"]:
            name, _, content = each.partition(":")
            self._headers[name] = content.strip()

    async def put(self, records: list[SinkRecord]) -> None:
        """Send records in their order. A refused record costs itself alone."""
        refused: list[tuple[SinkRecord, Exception]] = []
        ready: list[tuple[SinkRecord, str, bytes]] = []
        for record in records:
            try:
                ready.append((record, self._target(record), self._body(record)))
            except DataException as fault:
                refused.append((record, fault))
        for batch in parted(ready, self._options["batch.size"]):
            await self._send(batch, refused)
        if refused:
            raise RefusedRecords(refused)

    async def close(self) -> None:
        """End the connection, once a request in progress has ended."""
        await self._apart(self._service.close)
        self._thread.shutdown()

    async def _send(
        self, batch: Sequence[tuple[SinkRecord, str, bytes]], refused: list[tuple[SinkRecord, Exception]]
    ) -> None:
        """Send one request until it is taken or refused. Requests before it are not sent again."""
        bodies = [body for _, _, body in batch]
        body = b"[" + b",".join(bodies) + b"]" if self._options["batch.size"] else bodies[0]
        wait = self._options["retry.backoff.ms"]
        for left in range(self._options["max.retries"], -1, -1):
            answer = await self._apart(
                partial(self._service.ask, self._options["http.method"], batch[0][1], body, self._headers)
            )
            if answer.taken:
                return
            if not answer.may_pass:
                await self._refuse(answer, batch, refused)
                return
            if not left:
                raise RetriableException(f"{self._service.name}: {answer.reason}")
            this = max(min(wait, self._options["retry.backoff.max.ms"]), answer.retry_after_ms)
            log.warning("%s: %s; sending the request again in %d ms", self._service.name, answer.reason, this)
            await asyncio.sleep(this / 1000)
            wait *= 2

    async def _refuse(
        self,
        answer: Answer,
        batch: Sequence[tuple[SinkRecord, str, bytes]],
        refused: list[tuple[SinkRecord, Exception]],
    ) -> None:
        """Send the halves of a refused batch, until the refused record stands alone."""
        if answer.is_of_all:
            raise ConnectException(f"{self._service.name}: {answer.reason}")
        if half := len(batch) // 2:
            await self._send(batch[:half], refused)
            await self._send(batch[half:], refused)
            return
        refused += [(record, DataException(f"{self._service.name}: {answer.reason}")) for record, _, _ in batch]

    def _target(self, record: SinkRecord) -> str:
        def filled(match: re.Match[str]) -> str:
            if match[1] == "topic":
                return quote(record.topic, safe="")
            if record.key is None:
                raise DataException("http.url has ${key}, and the record has no key")
            key = record.key if isinstance(record.key, str | bytes) else text(record.key, record.key_schema)
            return quote(key, safe="")

        return _VARIABLE.sub(filled, self._service.target)

    def _body(self, record: SinkRecord) -> bytes:
        if record.value is None:
            return b"null"
        if isinstance(record.value, bytes):
            raise DataException("the value is bytes, and JSON has none: set value.converter to a JsonConverter")
        made = self._converter.from_connect(record.topic, record.value_schema, record.value)
        assert made is not None, "only null has no bytes"
        return made

    async def _apart(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, ask)


def parted(ready: Sequence[tuple[SinkRecord, str, bytes]], most: int) -> list[list[tuple[SinkRecord, str, bytes]]]:
    """The records of each request: neighbours with one target, at most so many; one if `most` is 0."""
    found: list[list[tuple[SinkRecord, str, bytes]]] = []
    for each in ready:
        if found and len(found[-1]) < most and found[-1][-1][1] == each[1]:
            found[-1].append(each)
        else:
            found.append([each])
    return found


def authorization(options: dict[str, Any]) -> dict[str, str]:
    """The header that shows who asks."""
    secret: Password | None = options["http.secret"]
    if secret is None:
        return {}
    if options["http.auth"] == "bearer":
        return {"Authorization": f"Bearer {secret.value}"}
    pair = f"{options['http.user']}:{secret.value}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
