"""The OTLP source: listens for OpenTelemetry's logs; each log record becomes a record with its resource beside it."""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Sequence
from typing import Any, Final

from ottla.connect import data
from ottla.connect.config_def import ConfigDef
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, SourceConnector, SourceTask
from ottla.connect.plugins.http.listener import ListenerTask, check_listener, listener_options
from ottla.connect.plugins.listening import record_time
from ottla.connect.plugins.otlp.wire import BadOtlp, from_json, from_protobuf
from ottla.connect.records import SourceRecord
from ottla.web.exchange import JSON, HttpError, Request, Response

PROTOBUF: Final = "application/x-protobuf"
PATH: Final = "/v1/logs"
_GZIP: Final = 31
_NANOS: Final = 1_000_000


class OtlpSourceConnector(SourceConnector):
    """Takes log records of OpenTelemetry."""

    java_class = "ottla.connect.OtlpSourceConnector"
    version = KAFKA_VERSION
    topic_option = "topic"
    OPTIONS = ConfigDef(*listener_options(4318))

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """One task: it has the port."""
        check_listener(cls.OPTIONS.parse(config))
        return [dict(config)]

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        return OtlpTask(cls.OPTIONS.parse(config), PATH)


class OtlpTask(ListenerTask):
    """Answers as an OTLP receiver does: 200 once all is in Kafka, 429 and 503 for later."""

    def records(self, request: Request) -> list[SourceRecord]:
        """The log records of an export."""
        kind, body = _kind(request), self._unpacked(request)
        try:
            found = from_protobuf(body) if kind == PROTOBUF else from_json(json.loads(body))
            return [self._record(each) for each in flattened(found)]
        except (BadOtlp, ValueError, RecursionError) as fault:
            raise HttpError(400, f"HTTP 400 Bad Request: {fault}") from None

    def answer(self, request: Request, records: Sequence[SourceRecord]) -> Response:
        """An empty response of the export, in the form of the request."""
        kind = _kind(request)
        return Response(b"" if kind == PROTOBUF else b"{}", kind)

    def _unpacked(self, request: Request) -> bytes:
        packing = request.headers.get("content-encoding", "identity").lower()
        if packing == "identity":
            return request.body
        if packing != "gzip":
            raise HttpError(415, f"HTTP 415 Unsupported Media Type: the encoding {packing}; there is gzip")
        most = self.options["max.body.bytes"]
        unpacking = zlib.decompressobj(_GZIP)
        try:
            content = unpacking.decompress(request.body, most + 1)
        except zlib.error as fault:
            raise HttpError(400, f"HTTP 400 Bad Request: the body is no gzip: {fault}") from None
        if len(content) > most:
            raise HttpError(413, f"HTTP 413 Request Entity Too Large: unpacked it has more than {most} bytes")
        if not unpacking.eof:
            raise HttpError(400, "HTTP 400 Bad Request: the gzip ends too early")
        return content

    def _record(self, value: dict[str, Any]) -> SourceRecord:
        service = value["resource"].get("service.name")
        key = service if isinstance(service, str) else None
        nanos = value.get("time_unix_nano") or value.get("observed_time_unix_nano")
        return SourceRecord(
            self.options["topic"], key_schema=None if key is None else data.STRING, key=key, value=value,
            timestamp=record_time(None if nanos is None else nanos // _NANOS, int(time.time() * 1000)),
        )  # fmt: skip


def _kind(request: Request) -> str:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind not in (PROTOBUF, JSON):
        raise HttpError(415, f"HTTP 415 Unsupported Media Type: send {PROTOBUF} or {JSON}")
    return kind


def flattened(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Each log record with the attributes of its resource and its scope."""
    found = []
    for of_resource in request.get("resource_logs", ()):
        resource = _attributes(of_resource.get("resource", {}).get("attributes", ()))
        for of_scope in of_resource.get("scope_logs", ()):
            scope = of_scope.get("scope", {})
            scope = {**scope, "attributes": _attributes(scope["attributes"])} if "attributes" in scope else scope
            for record in of_scope.get("log_records", ()):
                made = {**record, "attributes": _attributes(record.get("attributes", ())), "resource": resource}
                if "body" in record:
                    made["body"] = _plain(record["body"])
                found.append({**made, "scope": scope} if scope else made)
    return found


def _attributes(pairs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {each.get("key", ""): _plain(each.get("value", {})) for each in pairs}


def _plain(value: dict[str, Any]) -> Any:
    """The value that an AnyValue holds; bytes as Base64."""
    if not value:
        return None
    name, content = next(reversed(value.items()))
    match name:
        case "array_value":
            return [_plain(each) for each in content.get("values", ())]
        case "kvlist_value":
            return _attributes(content.get("values", ()))
        case "bytes_value":
            return base64.b64encode(content).decode()
    return content
