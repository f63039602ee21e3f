"""The HTTP sink: its options, and the task that sends records in their order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from ottla.connect.checks import between, one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.converters.json import JsonConverter
from ottla.connect.errors import ConnectException, DataException
from ottla.connect.java.text import text
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, RefusedRecords, SinkConnector, SinkTask
from ottla.connect.plugins.http.asking import SERVICE_OPTIONS, Asking, check_address, check_authorization
from ottla.connect.plugins.http.requests import Answer, Waits
from ottla.connect.records import SinkRecord

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")


def _url(address: str) -> None:
    check_address(address)
    if strange := [each for each in _VARIABLE.findall(address) if each not in ("topic", "key")]:
        raise ValueError(f"${{{strange[0]}}} is unknown: there are ${{topic}} and ${{key}}")


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
        Option("http.auth", Type.STRING, "none", _MEDIUM, "How the task shows who it is.",
               one_of("none", "basic", "bearer")),
        *SERVICE_OPTIONS,
        Option("http.secret", Type.PASSWORD, None, _MEDIUM, "The password of basic, the token of bearer."),
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
    check_authorization(options)
    return options


class HttpSinkTask(SinkTask):
    """Sends each put at once, one request after the other; a flush has nothing left to do."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._asking = Asking(options["http.url"], options, {"Content-Type": "application/json"})
        self._service = self._asking.service
        self._converter = JsonConverter({"schemas.enable": "false", "converter.type": "value"})

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
        await self._asking.close()

    async def _send(
        self, batch: Sequence[tuple[SinkRecord, str, bytes]], refused: list[tuple[SinkRecord, Exception]]
    ) -> None:
        """Send one request until it is taken or refused. Requests before it are not sent again."""
        bodies = [body for _, _, body in batch]
        body = b"[" + b",".join(bodies) + b"]" if self._options["batch.size"] else bodies[0]
        options = self._options
        waits = Waits(options["max.retries"], options["retry.backoff.ms"], options["retry.backoff.max.ms"])
        ask = partial(self._service.ask, options["http.method"], batch[0][1], body, self._asking.headers)
        while not (answer := await self._asking.apart(ask)).taken:
            if not answer.may_pass:
                await self._refuse(answer, batch, refused)
                return
            await waits.again(f"{self._service.name}: {answer.reason}", answer.retry_after_ms)

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


def parted(ready: Sequence[tuple[SinkRecord, str, bytes]], most: int) -> list[list[tuple[SinkRecord, str, bytes]]]:
    """The records of each request: neighbours with one target, at most so many; one if `most` is 0."""
    found: list[list[tuple[SinkRecord, str, bytes]]] = []
    for each in ready:
        if found and len(found[-1]) < most and found[-1][-1][1] == each[1]:
            found[-1].append(each)
        else:
            found.append([each])
    return found
