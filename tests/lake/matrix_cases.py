"""Every type of Avro, Protobuf and JSON Schema with its extreme values, and the values that a lake's reader sees.

Times in nanoseconds stand as whole numbers of them, decimals of more than 38 digits as text.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from typing import Any

import fastavro
from google.protobuf import message_factory
from google.protobuf.message import Message

from ottla.formats.protoc import compiled
from ottla.formats.writer import WriterSchema

ABSENT: list[Any] = []
"""Stands for the values of a field that makes no column."""
INF, NAN = float("inf"), float("nan")
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
LAST_MS = LAST.replace(microsecond=999000)
NANOS = [0, -1, 1_700_000_000_123_456_789, -(1 << 63), (1 << 63) - 1]
UUID = "00000000-0000-0000-0000-00000000abcd"


@dataclass(frozen=True)
class Case:
    """One field `v` of one type: the schema, the payloads, and what readers see of them."""

    name: str
    values: str
    schema: str
    payloads: list[bytes]
    seen: list[Any]


def avro_record(kind: Any) -> str:
    fields = [{"name": "v", "type": kind}, {"name": "id", "type": "int"}]
    return json.dumps({"type": "record", "name": "Row", "fields": fields})


def avro_payload(schema: str, row: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(json.loads(schema)), row)
    return target.getvalue()


def _logical(kind: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def _fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


def _record(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Inner",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


def _map(kind: Any) -> dict[str, Any]:
    return {"type": "map", "values": kind}


def _array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


TIME_MS, TIME_US = _logical("int", "time-millis"), _logical("long", "time-micros")
TIMES_MS, TIMES_US = [time(0), time(23, 59, 59, 999000)], [time(0), time(23, 59, 59, 999999)]
NS = _logical("long", "timestamp-nanos")
WIDE = [Decimal(text) for text in ("1.5", "-0.0000000001", "0", str(10**65) + ".0000000001")]
WIDE_TEXT = ["1.5000000000", "-0.0000000001", "0.0000000000", str(10**65) + ".0000000001"]
DURATION = b"\1\0\0\0\2\0\0\0\xff\xff\xff\xff"

# name -> the type, the values, and what is seen of them where that is something else
AVRO: dict[str, tuple[Any, list[Any]] | tuple[Any, list[Any], list[Any]]] = {
    "null": ("null", [None], ABSENT),
    "boolean": ("boolean", [True, False]),
    "int": ("int", [-(2**31), 2**31 - 1]),
    "long": ("long", [-(2**63), 2**63 - 1]),
    "float": ("float", [INF, -INF, NAN, -0.0, 1.5]),
    "double": ("double", [INF, -INF, NAN, -0.0, 5e-324]),
    "bytes": ("bytes", [b"", b"\0\xff"]),
    "string": ("string", ["", "ä\0𝄞"]),
    "fixed": (_fixed(3), [b"abc", b"\0\0\0"]),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["A", "B"]),
    "decimal in bytes": (_logical("bytes", "decimal", precision=38, scale=10), [Decimal("1.5"), Decimal(10**27 - 1)]),
    "decimal in fixed": (_fixed(16, logicalType="decimal", precision=38, scale=2), [Decimal("-3.25"), Decimal(0)]),
    "wide decimal": (_logical("bytes", "decimal", precision=76, scale=10), WIDE, WIDE_TEXT),
    "wide decimal in fixed": (_fixed(32, logicalType="decimal", precision=76, scale=10), WIDE, WIDE_TEXT),
    "uuid": (_logical("string", "uuid"), [UUID]),
    "uuid in fixed": (_fixed(16, logicalType="uuid"), [bytes.fromhex(UUID.replace("-", ""))], [UUID]),
    "date": (_logical("int", "date"), [date.min, date.max]),
    "time-millis": (TIME_MS, TIMES_MS),
    "time-micros": (TIME_US, TIMES_US),
    "timestamp-millis": (_logical("long", "timestamp-millis"), [FIRST, LAST_MS]),
    "timestamp-micros": (_logical("long", "timestamp-micros"), [FIRST, LAST]),
    "timestamp-nanos": (NS, NANOS),
    "local-timestamp-millis": (
        _logical("long", "local-timestamp-millis"),
        [datetime.min, LAST_MS.replace(tzinfo=None)],
    ),
    "local-timestamp-micros": (_logical("long", "local-timestamp-micros"), [datetime.min, datetime.max]),
    "local-timestamp-nanos": (_logical("long", "local-timestamp-nanos"), NANOS),
    "duration": (_fixed(12, logicalType="duration"), [DURATION], [{"months": 1, "days": 2, "milliseconds": 2**32 - 1}]),
    "unknown logical type": (_logical("long", "no-such"), [5]),
    "nullable": (["null", "string"], [None, "", "x"]),
    "nullable time": (["null", TIME_US], [None, time(1)]),
    "union": (
        ["null", "string", "long", _map("double")],
        [None, "x", 5, {"a": 0.5}],
        [
            None,
            {"member_string": "x", "member_long": None, "member_map": None},
            {"member_string": None, "member_long": 5, "member_map": None},
            {"member_string": None, "member_long": None, "member_map": {"a": 0.5}},
        ],
    ),
    "array": (_array("string"), [[], ["", "x"]]),
    "array of nullable": (_array(["null", "long"]), [[None, 1]]),
    "array of times": (_array(TIME_MS), [[], TIMES_MS]),
    "array of nanoseconds": (_array(NS), [[], NANOS]),
    "array of wide decimals": (_array(_logical("bytes", "decimal", precision=76, scale=10)), [WIDE], [WIDE_TEXT]),
    "array of arrays": (_array(_array("int")), [[[], [1]], []]),
    "map of string": (_map("string"), [{}, {"a": "b", "": ""}]),
    "map of int": (_map("int"), [{"a": 1}]),
    "map of bytes": (_map("bytes"), [{"a": b"\0"}]),
    "map of boolean": (_map("boolean"), [{"a": True}]),
    "map of nullable": (_map(["null", "string"]), [{"a": None, "b": ""}]),
    "map of null": (_map("null"), [{"a": None}]),
    "map of records": (_map(_record(x="string", m=_map("long"))), [{"a": {"x": "1", "m": {"b": 2}}}]),
    "map of arrays": (_map(_array("string")), [{"a": ["1"], "b": []}]),
    "map of maps": (_map(_map("string")), [{"a": {"b": "c"}, "d": {}}]),
    "map of times": (_map(TIME_MS), [dict(zip("ab", TIMES_MS, strict=True))]),
    "map of nanoseconds": (_map(NS), [{"a": 1}]),
    "nullable map": (["null", _map("string")], [None, {"a": "b"}]),
    "array of maps": (_array(_map("string")), [[{"a": "b"}, {}], []]),
    "record": (_record(x="string", y=["null", "long"]), [{"x": "", "y": None}, {"x": "a", "y": 1}]),
    "record of maps": (_record(m=_map("string"), t=TIME_US), [{"m": {"a": "b"}, "t": time(1)}]),
    "array of records": (_array(_record(t=TIME_US, n=NS)), [[{"t": time(1), "n": 7}], []]),
    "empty record": (_record(), [{}], ABSENT),
}


def every_avro_type() -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A record with a field of each type beside `id`, a row of it, and what is seen of the row's fields."""
    fields: list[dict[str, Any]] = [{"name": "id", "type": "int"}]
    row, expected = {}, {}
    for at, (kind, given, *other) in enumerate(AVRO.values()):
        text = json.dumps(kind)
        for name in ("F", "Inner", "E"):
            text = text.replace(f'"name": "{name}"', f'"name": "{name}{at}"')
        fields.append({"name": f"f{at}", "type": json.loads(text)})
        row[f"f{at}"] = given[-1]
        if values := other[0] if other else given:
            expected[f"f{at}"] = values[-1]
    return json.dumps({"type": "record", "name": "Row", "fields": fields}), row, expected


def _avro_cases() -> Iterator[Case]:
    for name, (kind, given, *other) in AVRO.items():
        schema = avro_record(kind)
        payloads = [avro_payload(schema, {"v": value, "id": at}) for at, value in enumerate(given)]
        yield Case(f"avro {name}", "avro", schema, payloads, other[0] if other else given)


PROTO = """
import "google/protobuf/any.proto"; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto"; import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
"""
P = "google.protobuf."
I32, I64, U32, U64 = [0, -(2**31), 2**31 - 1], [0, -(2**63), 2**63 - 1], [0, 2**32 - 1], [0, 2**64 - 1]
DECIMALS = [Decimal(0), Decimal(2**64 - 1)]
FLOATS = [0.0, INF, -INF, NAN, -0.0]
Fill = Callable[[Any], None]


def _set(value: Any) -> Fill:
    return lambda row: setattr(row, "v", value)


def _extend(*values: Any) -> Fill:
    return lambda row: row.v.extend(values)


def _entries(**values: Any) -> Fill:
    return lambda row: row.v.update(values)


def _wrapped(kind: str, value: Any, seen: Any = None) -> tuple[str, list[Fill], list[Any]]:
    given = [lambda row: None, lambda row: row.v.SetInParent(), lambda row: setattr(row.v, "value", value)]
    return f"{P}{kind}Value v = 1;", given, [None, type(seen or value)(), value if seen is None else seen]


def _at(seconds: int, nanos: int) -> Fill:
    def fill(row: Any) -> None:
        row.v.seconds, row.v.nanos = seconds, nanos

    return fill


def _free(row: Any) -> None:
    row.v.update({"a": [1, None, {"b": "c"}]})


def _in_map(row: Any) -> None:
    row.v["a"].n = 1


def _any(row: Any) -> None:
    row.v.type_url, row.v.value = "t/x", b"\1"


def _both(row: Any) -> None:
    row.v.n, row.v.inner.s = 1, "x"


SCALARS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (I32, I32)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), (I64, I64)),
    **dict.fromkeys(("uint32", "fixed32"), (U32, U32)),
    **dict.fromkeys(("uint64", "fixed64"), (U64, DECIMALS)),
    **dict.fromkeys(("float", "double"), (FLOATS, FLOATS)),
    "bool": ([False, True], [False, True]),
    "string": (["", "ä\0𝄞"], ["", "ä\0𝄞"]),
    "bytes": ([b"", b"\0\xff"], [b"", b"\0\xff"]),
}
INNER = "message Inner { int32 n = 1; Deep inner = 2; message Deep { string s = 1; } }"
PROTO3: dict[str, tuple[str, list[Fill], list[Any]]] = {
    **{kind: (f"{kind} v = 1;", list(map(_set, given)), seen) for kind, (given, seen) in SCALARS.items()},
    "optional": ("optional int32 v = 1;", [lambda row: None, _set(0)], [None, 0]),
    "enum": ("enum E { A = 0; B = 5; } E v = 1;", [_set(0), _set(5), _set(77)], ["A", "B", "77"]),
    "repeated": ("repeated string v = 1;", [_extend(), _extend("", "x")], [[], ["", "x"]]),
    "repeated uint64": ("repeated uint64 v = 1;", [_extend(*U64)], [DECIMALS]),
    "map of string": ("map<string, int32> v = 1;", [_entries(), _entries(a=1)], [{}, {"a": 1}]),
    "map of int": ("map<int64, string> v = 1;", [lambda row: row.v.update({-(2**63): ""})], [{-(2**63): ""}]),
    "map of bool": ("map<bool, string> v = 1;", [lambda row: row.v.update({True: "x"})], [{True: "x"}]),
    "map of uint64": ("map<uint64, bytes> v = 1;", [lambda row: row.v.update({2**64 - 1: b""})], [{DECIMALS[1]: b""}]),
    "map of messages": (f"map<string, Inner> v = 1; {INNER}", [_in_map], [{"a": {"n": 1, "inner": None}}]),
    "message": (f"Inner v = 1; {INNER}", [lambda row: None, _both], [None, {"n": 1, "inner": {"s": "x"}}]),
    "oneof": ("oneof either { int32 v = 1; string w = 3; }", [_set(0), lambda row: setattr(row, "w", "")], [0, None]),
    "timestamp": (
        f"{P}Timestamp v = 1;",
        [lambda row: None, _at(-62_135_596_800, 0), _at(253_402_300_799, 999_999_000)],
        [None, FIRST, LAST],
    ),
    "duration": (f"{P}Duration v = 1;", [_at(-315_576_000_000, -1)], [{"seconds": -315_576_000_000, "nanos": -1}]),
    "any": (f"{P}Any v = 1;", [_any], [{"type_url": "t/x", "value": b"\1"}]),
    "struct": (f"{P}Struct v = 1;", [_free], ['{"a": [1.0, null, {"b": "c"}]}']),
    "value": (f"{P}Value v = 1;", [lambda row: setattr(row.v, "bool_value", True)], ["true"]),
    "list value": (f"{P}ListValue v = 1;", [lambda row: row.v.extend(["x", None])], ['["x", null]']),
    "field mask": (f"{P}FieldMask v = 1;", [lambda row: row.v.paths.append("a.b")], [{"paths": ["a.b"]}]),
    "empty": (f"{P}Empty v = 1;", [lambda row: row.v.SetInParent()], ABSENT),
    "double value": _wrapped("Double", -0.5),
    "float value": _wrapped("Float", INF),
    "int64 value": _wrapped("Int64", I64[1]),
    "uint64 value": _wrapped("UInt64", U64[1], DECIMALS[1]),
    "int32 value": _wrapped("Int32", I32[1]),
    "uint32 value": _wrapped("UInt32", U32[1]),
    "bool value": _wrapped("Bool", True),
    "string value": _wrapped("String", "x"),
    "bytes value": _wrapped("Bytes", b"\xff"),
}
PROTO2: dict[str, tuple[str, list[Fill], list[Any]]] = {
    "optional": ("optional string v = 1;", [lambda row: None, _set("")], [None, ""]),
    "required": ("required int64 v = 1;", [_set(-1)], [-1]),
    "default": ("optional int32 v = 1 [default = 7];", [lambda row: None, _set(0)], [7, 0]),
    "group": ("optional group V = 1 { optional int32 n = 3; }", [lambda row: setattr(row.v, "n", 1)], [{"n": 1}]),
}


@cache
def _message(schema: str) -> type[Message]:
    return message_factory.GetMessageClass(compiled(WriterSchema("PROTOBUF", schema)).message_types_by_name["Row"])


def _protobuf_cases() -> Iterator[Case]:
    for syntax, cases in (("proto3", PROTO3), ("proto2", PROTO2)):
        for name, (fields, fills, seen) in cases.items():
            label = "optional " if syntax == "proto2" else ""
            schema = f'syntax = "{syntax}"; {PROTO} message Row {{ {fields} {label}int32 id = 100; }}'
            payloads = []
            for at, fill in enumerate(fills):
                row: Any = _message(schema)(id=at)
                fill(row)
                payloads.append(row.SerializeToString())
            yield Case(f"{syntax} {name}", "protobuf", schema, payloads, seen)


JSON: dict[str, tuple[Any, list[Any]] | tuple[Any, list[Any], list[Any]]] = {
    "string": ({"type": "string"}, ["", "ä\0𝄞"]),
    "integer": ({"type": "integer"}, [-(2**63), 2**63 - 1, 0]),
    "number": ({"type": "number"}, [0.5, -0.0, 1.7976931348623157e308, 5e-324]),
    "integer or number": ({"type": ["integer", "number"]}, [1, 0.5], [1.0, 0.5]),
    "boolean": ({"type": "boolean"}, [True, False]),
    "nullable": ({"type": ["string", "null"]}, [None, "x"]),
    "date": ({"type": "string", "format": "date"}, ["0001-01-01", "9999-12-31"], [date.min, date.max]),
    "date-time": (
        {"type": "string", "format": "date-time"},
        ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-01-01T00:00:00+02:00"],
        [FIRST, LAST, datetime(2025, 12, 31, 22, tzinfo=UTC)],
    ),
    "time": ({"type": "string", "format": "time"}, ["12:00:00Z"]),
    "uuid": ({"type": "string", "format": "uuid"}, [UUID]),
    "enum": ({"enum": ["a", "b", None]}, ["a", None]),
    "const": ({"const": 5}, [5]),
    "array": ({"type": "array", "items": {"type": "integer"}}, [[], [1, 2]]),
    "array of anything": ({"type": "array"}, [[1, "x"]], ['[1, "x"]']),
    "object": ({"type": "object", "properties": {"x": {"type": "string"}}}, [{"x": ""}, None]),
    "map": ({"type": "object", "additionalProperties": {"type": "string"}}, [{}, {"a": "b"}]),
    "map of dates": (
        {"type": "object", "additionalProperties": {"type": "string", "format": "date"}},
        [{"a": "9999-12-31"}],
        [{"a": date.max}],
    ),
    "map of maps": (
        {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "number"}}},
        [{"a": {"b": 0.5}}],
    ),
    "any": ({}, [{"a": [1]}, "x", None], ['{"a": [1]}', '"x"', None]),
    "several types": ({"type": ["string", "integer"]}, ["x", 1], ['"x"', "1"]),
    "one of": ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, [None, 5]),
    "reference": ({"$ref": "#/definitions/d"}, ["x"]),
}


def _json_cases() -> Iterator[Case]:
    for name, (kind, given, *other) in JSON.items():
        document = {
            "type": "object",
            "properties": {"v": kind, "id": {"type": "integer"}},
            "definitions": {"d": {"type": "string"}},
        }
        payloads = [json.dumps({"v": value, "id": at}).encode() for at, value in enumerate(given)]
        yield Case(f"json {name}", "json", json.dumps(document), payloads, other[0] if other else given)


CASES = [*_avro_cases(), *_protobuf_cases(), *_json_cases()]
