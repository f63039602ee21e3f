"""The messages of OTLP's logs, read from protobuf and from JSON by one table. Pure.

`opentelemetry-proto` would bring generated code for all of OTLP; logs are these eight messages. Fields that are not in
the table are skipped, as the protocol demands of receivers.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

MOST_NESTED: Final = 64


class BadOtlp(ValueError):
    """Content that is no request of OTLP's logs."""


class Kind(Enum):
    """The ways to write a field."""

    TEXT = 2
    BYTES = 3
    HEX = 4
    """Bytes which JSON has in hexadecimal: the ids of traces."""
    BOOL = 5
    INT64 = 6
    UINT32 = 7
    FIXED32 = 8
    FIXED64 = 9
    DOUBLE = 10
    MESSAGE = 11


_WIRE: Final = {
    Kind.TEXT: 2, Kind.BYTES: 2, Kind.HEX: 2, Kind.MESSAGE: 2, Kind.BOOL: 0, Kind.INT64: 0, Kind.UINT32: 0,
    Kind.FIXED32: 5, Kind.FIXED64: 1, Kind.DOUBLE: 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WireField:
    """One field of a message."""

    name: str
    kind: Kind
    message: str = ""
    repeated: bool = False


def _some(name: str, message: str) -> WireField:
    return WireField(name, Kind.MESSAGE, message, repeated=True)


MESSAGES: Final[Mapping[str, Mapping[int, WireField]]] = {
    "Request": {1: _some("resource_logs", "ResourceLogs")},
    "ResourceLogs": {1: WireField("resource", Kind.MESSAGE, "Resource"), 2: _some("scope_logs", "ScopeLogs")},
    "Resource": {1: _some("attributes", "KeyValue")},
    "ScopeLogs": {1: WireField("scope", Kind.MESSAGE, "Scope"), 2: _some("log_records", "LogRecord")},
    "Scope": {
        1: WireField("name", Kind.TEXT),
        2: WireField("version", Kind.TEXT),
        3: _some("attributes", "KeyValue"),
    },
    "LogRecord": {
        1: WireField("time_unix_nano", Kind.FIXED64),
        2: WireField("severity_number", Kind.UINT32),
        3: WireField("severity_text", Kind.TEXT),
        5: WireField("body", Kind.MESSAGE, "AnyValue"),
        6: _some("attributes", "KeyValue"),
        7: WireField("dropped_attributes_count", Kind.UINT32),
        8: WireField("flags", Kind.FIXED32),
        9: WireField("trace_id", Kind.HEX),
        10: WireField("span_id", Kind.HEX),
        11: WireField("observed_time_unix_nano", Kind.FIXED64),
        12: WireField("event_name", Kind.TEXT),
    },
    "KeyValue": {1: WireField("key", Kind.TEXT), 2: WireField("value", Kind.MESSAGE, "AnyValue")},
    "AnyValue": {
        1: WireField("string_value", Kind.TEXT),
        2: WireField("bool_value", Kind.BOOL),
        3: WireField("int_value", Kind.INT64),
        4: WireField("double_value", Kind.DOUBLE),
        5: WireField("array_value", Kind.MESSAGE, "ArrayValue"),
        6: WireField("kvlist_value", Kind.MESSAGE, "KeyValueList"),
        7: WireField("bytes_value", Kind.BYTES),
    },
    "ArrayValue": {1: _some("values", "AnyValue")},
    "KeyValueList": {1: _some("values", "KeyValue")},
}


def from_protobuf(content: bytes | memoryview, message: str = "Request", nested: int = 0) -> dict[str, Any]:
    """A message as an object of the fields that are there."""
    if nested > MOST_NESTED:
        raise BadOtlp(f"values are nested more than {MOST_NESTED} deep")
    view, at = memoryview(content), 0
    made: dict[str, Any] = {}
    fields = MESSAGES[message]
    while at < len(view):
        tag, at = _varint(view, at)
        part, at = _part(view, at, tag & 7)
        field = fields.get(tag >> 3)
        if field is None:
            continue
        if _WIRE[field.kind] != tag & 7:
            raise BadOtlp(f"the field {field.name} of {message} has the wire type {tag & 7}")
        _add(made, field, _value(field, part, nested))
    return made


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(view) and shift < 70:
        byte = view[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise BadOtlp("the content ends inside a number, or a number is too long")


def _part(view: memoryview, at: int, wire: int) -> tuple[int | memoryview, int]:
    """The number or the bytes of one field."""
    if wire == 0:
        return _varint(view, at)
    if wire == 2:
        size, at = _varint(view, at)
    elif wire in (1, 5):
        size = 8 if wire == 1 else 4
    else:
        raise BadOtlp(f"there is no wire type {wire}")
    if at + size > len(view):
        raise BadOtlp("the content ends inside a field")
    return view[at : at + size], at + size


def _value(field: WireField, part: Any, nested: int) -> Any:
    match field.kind:
        case Kind.MESSAGE:
            return from_protobuf(part, field.message, nested + 1)
        case Kind.TEXT:
            try:
                return bytes(part).decode()
            except UnicodeDecodeError as fault:
                raise BadOtlp(f"the field {field.name} is not UTF-8") from fault
        case Kind.HEX:
            return bytes(part).hex()
        case Kind.BYTES:
            return bytes(part)
        case Kind.BOOL:
            return bool(part)
        case Kind.INT64:
            return part - (1 << 64) if part >> 63 else part
        case Kind.UINT32:
            return part & 0xFFFFFFFF
        case Kind.DOUBLE:
            return struct.unpack("<d", part)[0]
    return int.from_bytes(part, "little")


def _add(made: dict[str, Any], field: WireField, value: Any) -> None:
    if field.repeated:
        made.setdefault(field.name, []).append(value)
    else:
        made[field.name] = value


def from_json(content: Any, message: str = "Request", nested: int = 0) -> dict[str, Any]:
    """The same of OTLP's JSON: names in camel case, long numbers as text, ids of traces in hexadecimal."""
    if nested > MOST_NESTED:
        raise BadOtlp(f"values are nested more than {MOST_NESTED} deep")
    if not isinstance(content, dict):
        raise BadOtlp(f"a {message} is an object")
    made: dict[str, Any] = {}
    for field in MESSAGES[message].values():
        found = content.get(_camel(field.name), content.get(field.name))
        if found is None:
            continue
        if field.repeated and not isinstance(found, list):
            raise BadOtlp(f"{_camel(field.name)} is an array")
        for each in found if field.repeated else [found]:
            _add(made, field, _of_json(field, each, nested))
    return made


def _of_json(field: WireField, value: Any, nested: int) -> Any:
    if field.kind is Kind.MESSAGE:
        return from_json(value, field.message, nested + 1)
    try:
        return _READERS[field.kind](value)
    except (ValueError, TypeError, binascii.Error):
        raise BadOtlp(f"{_camel(field.name)} is no {field.kind.name.lower()}: {str(value)[:60]!r}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise TypeError
        number = int(value)
        if not least <= number < most:
            raise ValueError
        return number

    return read


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


_READERS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.TEXT: _text, Kind.BYTES: lambda value: base64.b64decode(_text(value), validate=True), Kind.BOOL: _flag,
    Kind.HEX: lambda value: bytes.fromhex(_text(value)).hex(), Kind.INT64: _whole(-(1 << 63), 1 << 63),
    Kind.UINT32: _whole(0, 1 << 32), Kind.FIXED32: _whole(0, 1 << 32), Kind.FIXED64: _whole(0, 1 << 64),
    Kind.DOUBLE: _double,
}  # fmt: skip


def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)
