"""The HTTP source: asks a web service again and again for what is new."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ottla.connect import data
from ottla.connect.checks import between, non_empty_text, one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import ConfigException, ConnectException, DataException, RetriableException
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, SourceConnector, SourceOffset, SourcePartition, SourceTask
from ottla.connect.plugins.directory.content import exact
from ottla.connect.plugins.http.asking import SERVICE_OPTIONS, Asking, check_address, check_authorization, header_list
from ottla.connect.plugins.http.pages import (
    ByField,
    ByPage,
    ByVersion,
    Page,
    Paging,
    Pointer,
    is_offset,
    same_origin,
)
from ottla.connect.plugins.http.requests import Fetched
from ottla.connect.plugins.http.webhook import pointer
from ottla.connect.plugins.polling import PollingSource, PollingTask, Position
from ottla.connect.records import SourceRecord

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_VARIABLE: Final = "${offset}"
_MOST_PAGES: Final = 100
"""Pages without news that are walked through in one poll."""


def _url(address: str) -> None:
    check_address(address)
    if "$" in address.replace(_VARIABLE, ""):
        raise ValueError("the only variable is ${offset}")


class HttpSourceConnector(SourceConnector):
    """Reads records from a web service."""

    java_class = "ottla.connect.HttpSourceConnector"
    version = KAFKA_VERSION
    topic_option = "topic"
    OPTIONS = ConfigDef(
        Option("http.url", Type.STRING, importance=_HIGH, doc="The address that is asked; ${offset} stands for the "
               "offset.", check=understood(_url)),
        Option("topic", Type.STRING, importance=_HIGH, doc="The topic of the records.", check=non_empty_text),
        Option("poll.interval.ms", Type.INT, 60_000, _HIGH, "The time between two requests that find nothing new.",
               between(1)),
        Option("records.pointer", Type.STRING, "", _HIGH, "Where the array of records is in the answer, as a JSON "
               "pointer such as /data/items. Empty: the answer is the array.", pointer),
        Option("offset.mode", Type.STRING, "version", _HIGH, "field: a field of each record. header: a header of the "
               "answer. link: its link with rel=next. version: read all when the ETag or the content has changed.",
               one_of("field", "header", "link", "version")),
        Option("offset.pointer", Type.STRING, None, _MEDIUM, "With field: where it is in a record.", pointer),
        Option("offset.header", Type.STRING, None, _MEDIUM, "With header: the header of the next offset."),
        Option("offset.initial", Type.STRING, "", _MEDIUM, "What ${offset} is at first."),
        Option("key.pointer", Type.STRING, None, _MEDIUM, "Where a record's key is in it.", pointer),
        Option("http.auth", Type.STRING, "none", _MEDIUM, "How the task shows who it is.",
               one_of("none", "basic", "bearer", "header")),
        *SERVICE_OPTIONS,
        Option("http.secret", Type.PASSWORD, None, _MEDIUM, "The password, the token, or the value of the header."),
        Option("http.auth.header", Type.STRING, None, _MEDIUM, "The header of http.auth=header, such as X-Api-Key."),
        Option("http.max.bytes", Type.INT, 16 << 20, _LOW, "The longest answer.", between(1)),
        Option("max.retries", Type.INT, 10, _MEDIUM, "How often in a row a request may fail.", between(0)),
    )  # fmt: skip

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """One task: there is one address."""
        _checked(config)
        return [dict(config)]

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        options, paging = _checked(config)
        source = HttpSource(options, paging)
        return PollingTask(source, interval_ms=options["poll.interval.ms"], retries=options["max.retries"])

    @classmethod
    def check_offsets(cls, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Offsets have the members of the connector's offset.mode."""
        options, paging = _checked(config)
        for partition, offset in offsets:
            if dict(partition) != {"url": options["http.url"]}:
                raise ConfigException(f'The partition is {{"url": "{options["http.url"]}"}}, as http.url')
            if offset is not None and not is_offset(paging, offset):
                raise ConfigException(
                    f"With offset.mode={options['offset.mode']} an offset has {', '.join(paging.keys)}"
                )


def _checked(config: Config) -> tuple[dict[str, Any], Paging]:
    options = HttpSourceConnector.OPTIONS.parse(config)
    mode, has_variable = options["offset.mode"], _VARIABLE in options["http.url"]
    for name, own in (("offset.pointer", "field"), ("offset.header", "header")):
        if (mode == own) != (options[name] is not None):
            raise ConfigException(f"offset.mode={own} and {name} go together: set both or neither")
    if mode in ("field", "header") and not has_variable:
        raise ConfigException(f"offset.mode={mode} needs ${{offset}} in http.url, such as ?since=${{offset}}")
    if mode == "version" and has_variable:
        raise ConfigException("offset.mode=version has no ${offset}: set another mode, or take it out of http.url")
    check_authorization(options)
    if options["http.auth.header"] is not None:
        header_list("http.auth.header", [f"{options['http.auth.header']}: value"])
    if mode == "field":
        return options, ByField(Pointer(options["offset.pointer"]), options["offset.initial"])
    if mode == "version":
        return options, ByVersion()
    return options, ByPage(options["offset.initial"], options["offset.header"])


class HttpSource(PollingSource):
    """One address of a web service. Requests are made in a thread of the source's own."""

    def __init__(self, options: dict[str, Any], paging: Paging) -> None:
        self._options, self._paging = options, paging
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        self._asking = Asking(options["http.url"].replace(_VARIABLE, ""), options, headers)
        self._service = self._asking.service
        self._ahead: tuple[SourceOffset | None, SourceOffset | None] = (None, None)
        """The last offset of a record, and the one behind it that pages without news have led to."""

    async def partitions(self) -> Collection[SourcePartition]:
        """The address is the only one."""
        return [{"url": self._options["http.url"]}]

    async def poll(self, position: Position) -> list[SourceRecord]:
        """The new records of a page; pages that hold nothing new are walked through."""
        before, offset = self._ahead
        if before != position.offset:
            before = offset = position.offset
        for _ in range(_MOST_PAGES):
            page = await self._page(offset)
            if page is None:
                break
            try:
                if found := self._paging.found(offset, page):
                    return [self._record(item, behind) for item, behind in found]
            except DataException as fault:
                raise ConnectException(f"{page.url}: {fault}") from None
            further = self._paging.further(offset, page)
            if further is None:
                break
            offset = further
            if not page.items:  # an offset that moves on by itself: there is nothing yet
                break
        self._ahead = (before, offset)
        return []

    async def close(self) -> None:
        """End the connection, once a request in progress has ended."""
        await self._asking.close()

    async def _page(self, offset: SourceOffset | None) -> Page | None:
        ask = self._paging.ask(offset)
        url = ask.url or self._options["http.url"].replace(_VARIABLE, quote(ask.offset, safe=""))
        if not same_origin(url, self._options["http.url"]):
            raise ConnectException(f"the next page is at {url}, another server than http.url: set http.url to that one")
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {**self._asking.headers, **ask.headers}
        fetch = partial(self._service.fetch, target, headers, self._options["http.max.bytes"])
        fetched = await self._asking.apart(fetch)
        if fetched.answer.status == 304:
            return None
        await self._require(fetched)
        try:
            content = json.loads(fetched.body, parse_float=Decimal)
            items = Pointer(self._options["records.pointer"]).array(content)
        except (ValueError, RecursionError, DataException) as fault:
            raise ConnectException(f"{self._service.name}{target} answers what cannot be read: {fault}") from None
        return Page(items, fetched.headers, fetched.body, url)

    async def _require(self, fetched: Fetched) -> None:
        answer = fetched.answer
        if answer.taken:
            return
        if not answer.may_pass:
            raise ConnectException(f"{self._service.name}: {answer.reason}")
        if answer.retry_after_ms:
            await asyncio.sleep(answer.retry_after_ms / 1000)
        raise RetriableException(f"{self._service.name}: {answer.reason}")

    def _record(self, item: Any, behind: dict[str, Any]) -> SourceRecord:
        made = SourceRecord(self._options["topic"], source_offset=behind)
        try:
            made.value = exact(item, "the answer")
            if self._options["key.pointer"] is not None:
                made.key_schema, made.key = data.STRING, Pointer(self._options["key.pointer"]).text(item)
        except DataException as fault:
            made.value, made.fault = json.dumps(item, default=str), fault
        return made
