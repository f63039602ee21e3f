"""Values of columns as Protobuf messages: the reverse of protobuf_columns.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError

from ottla.formats.faults import BadPayload, SchemaFault
from ottla.formats.protobuf import ProtobufReader, index_path
from ottla.formats.protobuf_columns import AS_JSON, WRAPPERS, is_map
from ottla.formats.writer import WriterSchema

_EPOCH, _SECOND, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1), timedelta(microseconds=1)


class ProtobufWriter:
    """Writes rows of `type` as payloads of one schema, with the message's indexes before them where framed."""

    def __init__(self, schema: WriterSchema, *, message: str = "", framed: bool = True) -> None:
        reader = ProtobufReader(schema, message=message)
        self.type = reader.type
        self._class = message_factory.GetMessageClass(reader.descriptor)
        self._given = _given(reader.descriptor)
        self._prefix = index_path(reader.descriptor) if framed else b""

    def write(self, value: Any) -> bytes:
        """The payload of one value, or `BadPayload`."""
        try:
            written: bytes = self._class(**self._given(value)).SerializeToString()
        except (ValueError, TypeError, json_format.Error, EncodeError) as fault:
            raise BadPayload(f"a row does not fit the Protobuf schema: {fault}") from None
        return self._prefix + written


Convert = Callable[[Any], Any]


def _given(descriptor: Descriptor) -> Convert:
    """Makes of a row the arguments of its message; null is what nobody set."""
    parts = {field.name: _field(field) for field in descriptor.fields if field.message_type is not descriptor}

    def convert(row: dict[str, Any]) -> dict[str, Any]:
        return {name: parts[name](value) for name, value in row.items() if value is not None}

    return convert


def _field(field: FieldDescriptor) -> Convert:
    if is_map(field):
        inner = _one(field.message_type.fields_by_name["value"])
        return lambda entries: {key: inner(value) for key, value in entries}
    one = _one(field)
    return (lambda values: [one(each) for each in values]) if field.is_repeated else one


def _one(field: FieldDescriptor) -> Convert:
    if field.cpp_type in (FieldDescriptor.CPPTYPE_UINT64, FieldDescriptor.CPPTYPE_UINT32):
        return int
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return lambda name: int(name) if name.lstrip("-").isdigit() else name
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return lambda value: value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return _timestamp
    if name in WRAPPERS:
        inner = _one(field.message_type.fields_by_name["value"])
        return lambda value: {"value": inner(value)}
    if name in AS_JSON:
        made = message_factory.GetMessageClass(field.message_type)
        return lambda text: json_format.ParseDict(json.loads(text), made())
    return _given(field.message_type)


def _timestamp(time: datetime) -> dict[str, int]:
    seconds, rest = divmod(time - _EPOCH, _SECOND)
    return {"seconds": seconds, "nanos": rest // _MICROSECOND * 1000}


def derived_text(kind: pa.DataType, name: str) -> str:
    """A .proto text for columns of this type; every single field says whether it is set."""
    body = _body(kind, "  ")
    imported = 'import "google/protobuf/timestamp.proto";\n' if "google.protobuf.Timestamp" in body else ""
    return f'syntax = "proto3";\n{imported}message {name} {{\n{body}}}\n'


def _body(kind: pa.DataType, indent: str) -> str:
    lines = []
    for number, field in enumerate(kind, 1):
        inner = f"{field.name[:1].upper()}{field.name[1:]}Value"
        label, type_name, nested = _typed(field.type, inner, indent)
        lines.append(f"{nested}{indent}{label}{type_name} {field.name} = {number};\n")
    return "".join(lines)


def _typed(kind: pa.DataType, inner: str, indent: str) -> tuple[str, str, str]:
    """The label, the type's name and the text of a type defined for it."""
    simple = {
        pa.bool_(): "bool",
        pa.int8(): "int32",
        pa.int16(): "int32",
        pa.int32(): "int32",
        pa.int64(): "int64",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.binary(): "bytes",
    }
    if kind in simple:
        return "optional ", simple[kind], ""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return "optional ", "google.protobuf.Timestamp", ""
    if pa.types.is_struct(kind):
        return "optional ", inner, f"{indent}message {inner} {{\n{_body(kind, indent + '  ')}{indent}}}\n"
    if pa.types.is_map(kind):
        _, key, _ = _typed(kind.key_type, inner, indent)
        label, value, nested = _typed(kind.item_type, inner, indent)
        if label == "optional ":
            return "", f"map<{key}, {value}>", nested
    elif pa.types.is_list(kind):
        label, item, nested = _typed(kind.value_type, inner, indent)
        if label == "optional ":
            return "repeated ", item, nested
    raise SchemaFault(f"no Protobuf type is derived for {kind}: give a schema")
