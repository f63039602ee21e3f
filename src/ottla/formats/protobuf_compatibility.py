"""Checks that a Protobuf reader understands the bytes of a writer: messages by name, fields by number.

Scalars may change within a wire kind, as Protobuf's own guide on updating messages allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from ottla.formats.compatibility import Incompatibility

_NAMES = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    10: "group",
    11: "message",
    12: "bytes",
    13: "uint32",
    14: "enum",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
_STRING, _GROUP, _MESSAGE, _BYTES, _ENUM = 9, 10, 11, 12, 14
_KINDS = {
    **dict.fromkeys((3, 4, 5, 8, 13, 14), "varint"),
    **dict.fromkeys((17, 18), "zigzag"),
    **dict.fromkeys((7, 15), "fixed32"),
    **dict.fromkeys((6, 16), "fixed64"),
}
"""Types whose values are read by any other type of the same kind, cut to its size."""
_REQUIRED, _REPEATED = 2, 3


@dataclass(frozen=True, slots=True, eq=False)
class ProtobufSchema:
    """A compiled file, and those that it imports, by name."""

    file: FileDescriptorProto
    imports: Mapping[str, FileDescriptorProto] = field(default_factory=dict)

    def messages(self) -> dict[str, DescriptorProto]:
        """The messages of the file itself by full name, without entries of maps."""
        return {name: each for name, each in _messages(self.file).items() if not each.options.map_entry}

    def all_messages(self) -> dict[str, DescriptorProto]:
        """All messages of the file and of its imports by full name, entries of maps included."""
        found: dict[str, DescriptorProto] = {}
        for each in (*self.imports.values(), self.file):
            found |= _messages(each)
        return found

    def enums(self) -> dict[str, EnumDescriptorProto]:
        """All enums by full name."""
        found: dict[str, EnumDescriptorProto] = {}
        for file in (*self.imports.values(), self.file):
            found |= {f".{_join(file.package, each.name)}": each for each in file.enum_type}
            for name, message in _messages(file).items():
                found |= {f"{name}.{each.name}": each for each in message.enum_type}
        return found


def protobuf_incompatibilities(reader: ProtobufSchema, writer: ProtobufSchema) -> list[Incompatibility]:
    """The reasons why `reader` does not understand what `writer` wrote; none where it does."""
    if reader.file.package != writer.file.package:
        detail = (
            f"the reader's package is {reader.file.package or 'none'}, the writer's {writer.file.package or 'none'}"
        )
        return [Incompatibility("PACKAGE_CHANGED", "", detail)]
    comparison = _Comparison(reader, writer)
    found = []
    known = reader.all_messages()
    for name in writer.messages():
        if name in known:
            found += comparison.messages(name, name)
        else:
            detail = "the writer's message is not in the reader's schema"
            found.append(Incompatibility("MESSAGE_REMOVED", name[1:], detail))
    return found


class _Comparison:
    def __init__(self, reader: ProtobufSchema, writer: ProtobufSchema) -> None:
        self._readers = reader.all_messages()
        self._writers = writer.all_messages()
        self._reader_enums, self._reader_syntax = reader.enums(), reader.file.syntax
        self._writer_enums = writer.enums()
        self._seen: set[tuple[str, str]] = set()

    def messages(self, reader_name: str, writer_name: str) -> list[Incompatibility]:
        """Compare two messages and those that their fields lead to; each pair once."""
        if (reader_name, writer_name) in self._seen:
            return []
        self._seen.add((reader_name, writer_name))
        reader, writer = self._readers[reader_name], self._writers[writer_name]
        written = {each.number: each for each in writer.field}
        found = []
        for each in reader.field:
            where = f"{reader_name[1:]}.{each.name}"
            source = written.get(each.number)
            if source is not None:
                found += self._fields(each, source, where)
            if each.label == _REQUIRED and (source is None or source.label != _REQUIRED):
                detail = f"the required field {each.number} need not be in what the writer wrote"
                found.append(Incompatibility("REQUIRED_FIELD_ADDED", where, detail))
        return found + _oneofs(reader, writer, reader_name[1:])

    def _fields(self, reader: FieldDescriptorProto, writer: FieldDescriptorProto, where: str) -> list[Incompatibility]:
        if self._is_map(reader, self._readers) != self._is_map(writer, self._writers):
            return [Incompatibility("FIELD_KIND_CHANGED", where, "a map on one side alone")]
        found = self._types(reader, writer, where)
        if found or (reader.label == _REPEATED) == (writer.label == _REPEATED):
            return found
        if reader.type in (_STRING, _BYTES, _MESSAGE):
            return []
        detail = f"numbers are packed when repeated: {_shown(writer)} became {_shown(reader)}"
        return [Incompatibility("FIELD_NUMERIC_LABEL_CHANGED", where, detail)]

    def _types(self, reader: FieldDescriptorProto, writer: FieldDescriptorProto, where: str) -> list[Incompatibility]:
        if reader.type == writer.type and reader.type in (_MESSAGE, _GROUP):
            if reader.type_name != writer.type_name and not self._is_map(reader, self._readers):
                detail = f"the message {writer.type_name[1:]} became {reader.type_name[1:]}"
                return [Incompatibility("FIELD_NAMED_TYPE_CHANGED", where, detail)]
            return self.messages(reader.type_name, writer.type_name)
        if reader.type == _ENUM and self._is_closed(reader) and not self._takes_all(reader, writer):
            detail = f"the reader's enum {reader.type_name[1:]} is closed and lacks values of the writer"
            return [Incompatibility("ENUM_CONST_REMOVED", where, detail)]
        kinds = _KINDS.get(reader.type), _KINDS.get(writer.type)
        same = reader.type == writer.type or (kinds[0] is not None and kinds[0] == kinds[1])
        if same or (reader.type, writer.type) == (_BYTES, _STRING):
            return []
        kind = "FIELD_SCALAR_KIND_CHANGED" if _MESSAGE not in (reader.type, writer.type) else "FIELD_KIND_CHANGED"
        return [Incompatibility(kind, where, f"{_shown(writer)} became {_shown(reader)}")]

    def _is_closed(self, field: FieldDescriptorProto) -> bool:
        """True if an unknown value of a required enum would be left out: proto2 does so."""
        return self._reader_syntax in ("", "proto2") and field.label == _REQUIRED

    def _takes_all(self, reader: FieldDescriptorProto, writer: FieldDescriptorProto) -> bool:
        known = {each.number for each in self._reader_enums[reader.type_name].value}
        written = self._writer_enums.get(writer.type_name) if writer.type == _ENUM else None
        return written is not None and {each.number for each in written.value} <= known

    @staticmethod
    def _is_map(field: FieldDescriptorProto, messages: Mapping[str, DescriptorProto]) -> bool:
        return field.type == _MESSAGE and bool(messages[field.type_name].options.map_entry)


def _oneofs(reader: DescriptorProto, writer: DescriptorProto, where: str) -> list[Incompatibility]:
    """Find fields that were moved into one oneof, of which only the last is read, and fields removed from a oneof."""
    home = {each.number: _oneof(writer, each) for each in writer.field}
    kept = {each.number for each in reader.field}
    found = []
    for index, oneof in enumerate(reader.oneof_decl):
        members = [each.number for each in reader.field if _in(each, index) and each.number in home]
        homes = {home[number] for number in members}
        if len(members) > 1 and (len(homes) > 1 or None in homes):
            detail = "several fields that could be set together came into one oneof"
            found.append(Incompatibility("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{where}.{oneof.name}", detail))
        former = {home[number] for number in members} - {None}
        lost = [number for number, name in home.items() if name in former and number not in kept]
        if lost:
            detail = f"the field {lost[0]} is gone: what the writer chose is not seen"
            found.append(Incompatibility("ONEOF_FIELD_REMOVED", f"{where}.{oneof.name}", detail))
    return found


def _oneof(message: DescriptorProto, field: FieldDescriptorProto) -> str | None:
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return str(message.oneof_decl[field.oneof_index].name)


def _in(field: FieldDescriptorProto, index: int) -> bool:
    return field.HasField("oneof_index") and field.oneof_index == index and not field.proto3_optional


def _messages(file: FileDescriptorProto) -> dict[str, DescriptorProto]:
    found: dict[str, DescriptorProto] = {}
    pending = [(f".{_join(file.package, each.name)}", each) for each in reversed(file.message_type)]
    while pending:
        name, message = pending.pop()
        found[name] = message
        pending += [(f"{name}.{each.name}", each) for each in reversed(message.nested_type)]
    return found


def _join(package: str, name: str) -> str:
    return f"{package}.{name}" if package else name


def _shown(field: FieldDescriptorProto) -> str:
    repeated = "repeated " if field.label == _REPEATED else ""
    return f"{repeated}{field.type_name[1:] or _NAMES[field.type]}"
