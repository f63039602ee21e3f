"""OTLP's logs, in bytes that protobuf's own library wrote, and in the JSON of OpenTelemetry's example."""

import asyncio
import gzip
import json

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ottla.connect.plugins.http.requests import Service
from ottla.connect.plugins.otlp.source import OtlpSourceConnector, flattened
from ottla.connect.plugins.otlp.wire import MESSAGES, BadOtlp, Kind, from_json, from_protobuf
from ottla.connect.testing import OtherSide, check_source

CONFIG = {"topic": "t", "listen.port": "0"}
EXAMPLE = {
    "resourceLogs": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "my.service"}}]},
        "scopeLogs": [{
            "scope": {"name": "my.library", "version": "1.0.0",
                      "attributes": [{"key": "my.scope.attribute", "value": {"stringValue": "some scope attribute"}}]},
            "logRecords": [{
                "timeUnixNano": "1544712660300000000", "observedTimeUnixNano": "1544712660300000000",
                "severityNumber": 10, "severityText": "Information",
                "traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174",
                "body": {"stringValue": "Example log record"},
                "attributes": [
                    {"key": "string.attribute", "value": {"stringValue": "some string"}},
                    {"key": "boolean.attribute", "value": {"boolValue": True}},
                    {"key": "int.attribute", "value": {"intValue": "10"}},
                    {"key": "double.attribute", "value": {"doubleValue": 637.704}},
                    {"key": "array.attribute", "value": {"arrayValue": {"values": [
                        {"stringValue": "many"}, {"stringValue": "values"}]}}},
                    {"key": "map.attribute", "value": {"kvlistValue": {"values": [
                        {"key": "some.map.key", "value": {"stringValue": "some value"}}]}}},
                    {"key": "bytes.attribute", "value": {"bytesValue": "AAE="}},
                    {"key": "negative", "value": {"intValue": -3}},
                ],
            }],
        }],
    }]
}  # fmt: skip
"""https://github.com/open-telemetry/opentelemetry-proto/blob/main/examples/logs.json, with two attributes more."""
_TYPES = {
    Kind.TEXT: 9, Kind.BYTES: 12, Kind.HEX: 12, Kind.BOOL: 8, Kind.INT64: 3, Kind.UINT32: 13, Kind.FIXED32: 7,
    Kind.FIXED64: 6, Kind.DOUBLE: 1, Kind.MESSAGE: 11,
}  # fmt: skip


@pytest.fixture(scope="module")
def request_class():
    """The request as protobuf's own library knows it, from the same numbers and names."""
    file = descriptor_pb2.FileDescriptorProto(name="otlp.proto", package="o", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "AnyValue":
            message.oneof_decl.add(name="value")
        for number, field in fields.items():
            label = 3 if field.repeated else 1
            made = message.field.add(name=field.name, number=number, type=_TYPES[field.kind], label=label)
            if field.message:
                made.type_name = f".o.{field.message}"
            if name == "AnyValue":
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("o.Request"))


def filled(message, content):
    """A message of protobuf's library with this content."""
    for name, value in content.items():
        target = getattr(message, name)
        if isinstance(value, list):
            for each in value:
                filled(target.add(), each)
        elif isinstance(value, dict):
            target.SetInParent()
            filled(target, value)
        else:
            setattr(message, name, bytes.fromhex(value) if name in ("trace_id", "span_id") else value)
    return message


def test_protobuf_and_json_are_the_same_records(request_class):
    as_json = from_json(EXAMPLE)
    content = filled(request_class(), as_json).SerializeToString()
    assert from_protobuf(content) == as_json
    [record] = flattened(as_json)
    assert record["attributes"] == {
        "string.attribute": "some string", "boolean.attribute": True, "int.attribute": 10, "double.attribute": 637.704,
        "array.attribute": ["many", "values"], "map.attribute": {"some.map.key": "some value"},
        "bytes.attribute": "AAE=", "negative": -3,
    }  # fmt: skip
    assert (record["body"], record["resource"]) == ("Example log record", {"service.name": "my.service"})
    assert (record["trace_id"], record["scope"]["name"]) == ("5b8efff798038103d269b633813fc60c", "my.library")


def test_fields_of_later_versions_are_skipped():
    assert from_protobuf(b"\x7a\x03new" + b"\xa5\x06\x00\x00\x00\x00" + b"\x80\x01\x01") == {}


@pytest.mark.parametrize("content", [b"\x0a\x05\x0a", b"\x08\x01", b"\x0b", b"\xff" * 11, b"\x0a\x02\x0a\x09"])
def test_content_that_is_no_request_is_refused(content):
    with pytest.raises(BadOtlp):
        from_protobuf(content)


def test_values_that_are_nested_without_end_are_refused():
    value = b""
    for _ in range(200):
        value = _field(5, _field(1, value))
    with pytest.raises(BadOtlp, match="nested more than 64 deep"):
        from_protobuf(value, "AnyValue")


def _field(number, content):
    size = len(content)
    length = bytes([size & 0x7F | 0x80, size >> 7]) if size > 127 else bytes([size])
    return bytes([number << 3 | 2]) + length + content


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"resourceLogs": {}}, "resourceLogs is an array"),
        ([], "a Request is an object"),
        (
            {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": "x"}]}]}]},
            "timeUnixNano is no fixed64",
        ),
        ({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": "xyz"}]}]}]}, "traceId is no hex"),
    ],
)
def test_json_that_is_no_request_is_refused(content, sentence):
    with pytest.raises(BadOtlp, match=sentence):
        from_json(content)


def post(task, body, **headers):
    service = Service(task.url, 30)
    try:
        return service.ask("POST", service.target, body, {"Content-Type": "application/json", **headers})
    finally:
        service.close()


async def feed(task):
    for packed in (False, True):
        body = json.dumps(EXAMPLE).encode()
        more = {"Content-Encoding": "gzip"} if packed else {}
        answer = await asyncio.to_thread(post, task, gzip.compress(body, mtime=0) if packed else body, **more)
        assert (answer.status, answer.reason) == (200, "200 : {}")


def test_the_otlp_source_passes_the_kit():
    found = check_source(OtlpSourceConnector, lambda: OtherSide(CONFIG, feed=feed), records=2)
    assert [(each.key, each.timestamp) for each in found] == [("my.service", 1544712660300)] * 2


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"\x08\x01", {"Content-Type": "application/x-protobuf"}, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Content-Encoding": "br"}, 415),
        (b"{}", {"Content-Encoding": "gzip"}, 400),
        (gzip.compress(b" " * 3000, mtime=0), {"Content-Encoding": "gzip"}, 413),
        (gzip.compress(b"{}", mtime=0)[:-9], {"Content-Encoding": "gzip"}, 400),
        (b"{}", {}, 200),
    ],
)
def test_an_export_is_answered_by_its_status(body, headers, status):
    async def story():
        task = OtlpSourceConnector.task(CONFIG | {"max.body.bytes": "2000"})
        await task.start(None)
        try:
            return await asyncio.to_thread(post, task, body, **headers)
        finally:
            await task.close()

    assert asyncio.run(story()).status == status
