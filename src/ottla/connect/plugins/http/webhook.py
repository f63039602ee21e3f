"""The webhook source: requests of other services become records, once their signature is checked."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from ottla.connect import data
from ottla.connect.checks import between, one_of
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, SourceConnector, SourceTask
from ottla.connect.plugins.directory.content import exact
from ottla.connect.plugins.http.listener import ListenerTask, check_listener, listener_options
from ottla.connect.plugins.http.pages import Pointer
from ottla.connect.plugins.http.signature import FORMS, Form, refusal
from ottla.connect.records import Header, SourceRecord
from ottla.web.exchange import HttpError, Request, Response, json_response

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
NONE, TEMPLATE = "none", "template"
_PATH: Final = re.compile(r"/[\w./~%-]*")


def pointer(name: str, value: Any) -> None:
    """The option is a JSON pointer."""
    try:
        Pointer(value or "")
    except ValueError as fault:
        raise ConfigException.of(name, value, str(fault)) from None


def _path(name: str, value: Any) -> None:
    if not value or not _PATH.fullmatch(value):
        raise ConfigException.of(name, value, "a path begins with / and has no blanks")


class WebhookSourceConnector(SourceConnector):
    """Takes requests of other services."""

    java_class = "ottla.connect.WebhookSourceConnector"
    version = KAFKA_VERSION
    topic_option = "topic"
    OPTIONS = ConfigDef(
        *listener_options(8090),
        Option("listen.path", Type.STRING, "/", _HIGH, "The path that requests are sent to.", _path),
        Option("format", Type.STRING, "json", _HIGH, "json: the values of the body. bytes: the body as it is.",
               one_of("json", "bytes")),
        Option("records.pointer", Type.STRING, None, _MEDIUM, "With json: where the array of records is in the body, "
               "as a JSON pointer. None: the whole body is one record.", pointer),
        Option("key.pointer", Type.STRING, None, _MEDIUM, "With json: where a record's key is in it.", pointer),
        Option("key.header", Type.STRING, None, _MEDIUM, "The header of a request that is the key of its records, such "
               "as X-GitHub-Delivery."),
        Option("headers", Type.LIST, [], _MEDIUM, "Headers of a request that its records carry."),
        Option("signature", Type.STRING, NONE, _HIGH, "The form of the signature: a service's own, or template.",
               one_of(NONE, *FORMS, TEMPLATE)),
        Option("signature.secret", Type.PASSWORD, None, _HIGH, "The secret that the sender signs with."),
        Option("signature.secret.previous", Type.PASSWORD, None, _LOW, "The secret before, while it is changed."),
        Option("signature.header", Type.STRING, None, _LOW, "With template: the header of the signature."),
        Option("signature.template", Type.STRING, None, _LOW, "With template: its value, such as sha256=${hex}; parts "
               "with commas, and ${base64}, ${timestamp}."),
        Option("signature.content", Type.STRING, "${body}", _LOW, "With template: the signed text, with ${body} and "
               "${timestamp}."),
        Option("signature.timestamp.header", Type.STRING, "", _LOW, "With template: the header of ${timestamp}."),
        Option("signature.tolerance.ms", Type.INT, 300_000, _LOW, "How old a signed time may be.", between(0)),
    )  # fmt: skip

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """One task: it has the port."""
        _checked(config)
        return [dict(config)]

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        return WebhookTask(*_checked(config))


def _checked(config: Config) -> tuple[dict[str, Any], Form | None]:
    options = WebhookSourceConnector.OPTIONS.parse(config)
    check_listener(options)
    if options["format"] == "bytes" and (options["records.pointer"] is not None or options["key.pointer"] is not None):
        raise ConfigException("records.pointer and key.pointer look into JSON: set format=json, or leave them out")
    if options["key.pointer"] is not None and options["key.header"] is not None:
        raise ConfigException("key.pointer and key.header exclude each other: set one")
    kind = options["signature"]
    if (kind == NONE) != (options["signature.secret"] is None):
        raise ConfigException("signature and signature.secret go together: set both or neither")
    if kind in (NONE, *FORMS):
        if options["signature.template"] or options["signature.header"]:
            raise ConfigException("signature.header and signature.template go with signature=template")
        return options, FORMS.get(kind)
    if not options["signature.header"] or not options["signature.template"]:
        raise ConfigException("signature=template needs signature.header and signature.template")
    try:
        return options, Form(
            options["signature.header"], options["signature.template"], options["signature.content"],
            options["signature.timestamp.header"],
        )  # fmt: skip
    except ValueError as fault:
        raise ConfigException.of("signature.template", options["signature.template"], str(fault)) from None


class WebhookTask(ListenerTask):
    """Answers 200 once the records of a request are in Kafka."""

    def __init__(self, options: dict[str, Any], form: Form | None) -> None:
        super().__init__(options, options["listen.path"])
        self._form = form
        secrets = (options["signature.secret"], options["signature.secret.previous"])
        self._secrets = [each.value.encode() for each in secrets if each is not None]

    def records(self, request: Request) -> list[SourceRecord]:
        """The records of a request whose signature is right."""
        if self._form is not None:
            tolerance_s = self.options["signature.tolerance.ms"] / 1000
            reason = refusal(
                self._form, self._secrets, request.headers, request.body, now_s=time.time(), tolerance_s=tolerance_s
            )
            if reason is not None:
                raise HttpError(401, f"HTTP 401 Unauthorized: {reason}")
        if self.options["format"] == "bytes":
            return [self._record(request, request.body, data.BYTES)]
        try:
            found = json.loads(request.body, parse_float=Decimal, parse_constant=_no_number)
            if self.options["records.pointer"] is None:
                items = [found]
            else:
                items = Pointer(self.options["records.pointer"]).array(found)
            return [self._record(request, exact(each, "the body"), None) for each in items]
        except (ValueError, DataException, RecursionError) as fault:
            raise HttpError(400, f"HTTP 400 Bad Request: {fault}") from None

    def answer(self, request: Request, records: Sequence[SourceRecord]) -> Response:
        return json_response({"records": len(records)})

    def _record(self, request: Request, value: Any, schema: data.Schema | None) -> SourceRecord:
        key = None
        if self.options["key.header"] is not None:
            name = self.options["key.header"]
            key = request.headers.get(name.lower())
            if key is None:
                raise HttpError(400, f"HTTP 400 Bad Request: there is no header {name}, which is the records' key")
        elif self.options["key.pointer"] is not None:
            key = Pointer(self.options["key.pointer"]).text(value)
        carried = tuple(
            Header(name, data.STRING, request.headers[name.lower()])
            for name in self.options["headers"]
            if name.lower() in request.headers
        )
        key_schema = None if key is None else data.STRING
        return SourceRecord(
            self.options["topic"], key_schema=key_schema, key=key, value_schema=schema, value=value, headers=carried
        )


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")
