"""A Protobuf file descriptor as source. The normal form orders imports by name and fields by number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from ottla.formats.protobuf_options import OptionReader, quoted

_LABELS = {1: "optional ", 2: "required ", 3: "repeated "}
_MESSAGE, _ENUM, _GROUP = 11, 14, 10
_SCALARS = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
_MAX_NUMBER = 2**29
_MAX_ENUM_NUMBER = 2**31 - 1
_EDITIONS = {998: "proto2", 999: "proto3", 1000: "2023", 1001: "2024"}


def protobuf_text(
    file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto] | None = None, *, normalized: bool = False
) -> str:
    """Source that protoc compiles to the same descriptor; options of extensions need all `imports` by name."""
    return "\n".join(_Printer(file, OptionReader(file, imports or {}), normalized=normalized).lines()) + "\n"


class _Printer:
    def __init__(self, file: FileDescriptorProto, options: OptionReader, *, normalized: bool) -> None:
        self._file = file
        self._options = options.shown
        self._normalized = normalized
        self._proto3 = file.syntax == "proto3"
        self._editions = file.syntax == "editions"

    def lines(self) -> Iterator[str]:
        file = self._file
        if self._editions:
            yield f'edition = "{_EDITIONS.get(file.edition, file.edition)}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        imports = list(enumerate(file.dependency))
        for index, name in sorted(imports, key=lambda each: each[1]) if self._normalized else imports:
            kind = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
            yield f"import {kind}{quoted(name)};"
        yield from (f"option {text};" for text in self._options(file.options))
        for message in file.message_type:
            yield from self._message(message, 0)
        for enum in file.enum_type:
            yield from self._enum(enum, 0)
        yield from self._extensions(file.extension, [], 0)
        for service in file.service:
            yield from self._service(service)

    def _message(self, message: DescriptorProto, depth: int, head: str = "") -> Iterator[str]:
        indent = "  " * depth
        yield f"{indent}{head or f'message {message.name} {{'}"
        inner = "  " * (depth + 1)
        yield from (f"{inner}option {text};" for text in self._options(message.options, skip={"map_entry"}))
        yield from self._fields(message, depth + 1)
        groups = _group_names([*message.field, *message.extension])
        for nested in message.nested_type:
            if not nested.options.map_entry and nested.name not in groups:
                yield from self._message(nested, depth + 1)
        for enum in message.enum_type:
            yield from self._enum(enum, depth + 1)
        yield from self._extensions(message.extension, message.nested_type, depth + 1)
        for each in message.extension_range:
            options = f" [{', '.join(found)}]" if (found := list(self._options(each.options))) else ""
            yield f"{inner}extensions {_range(each.start, each.end, _MAX_NUMBER)}{options};"
        yield from self._reserved(message.reserved_range, message.reserved_name, inner, _MAX_NUMBER, exclusive=True)
        yield f"{indent}}}"

    def _fields(self, message: DescriptorProto, depth: int) -> Iterator[str]:
        indent = "  " * depth
        done: set[int] = set()
        fields = sorted(message.field, key=lambda each: each.number) if self._normalized else list(message.field)
        for field in fields:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, message.nested_type, depth)
            elif field.oneof_index not in done:
                done.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                yield f"{indent}oneof {oneof.name} {{"
                yield from (f"{indent}  option {text};" for text in self._options(oneof.options))
                for each in fields:
                    if each.HasField("oneof_index") and each.oneof_index == field.oneof_index:
                        yield from self._field(each, message.nested_type, depth + 1, in_oneof=True)
                yield f"{indent}}}"

    def _field(
        self, field: FieldDescriptorProto, nested: Sequence[DescriptorProto], depth: int, *, in_oneof: bool = False
    ) -> Iterator[str]:
        indent = "  " * depth
        entry = next(
            (each for each in nested if each.options.map_entry and field.type_name.endswith("." + each.name)), None
        )
        options = list(self._field_options(field))
        tail = f" [{', '.join(options)}]" if options else ""
        if entry is not None and field.label == 3:
            key, value = entry.field
            yield f"{indent}map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{tail};"
            return
        label = "" if in_oneof else self._label(field)
        if field.type == _GROUP:
            name = field.type_name.rpartition(".")[2]
            body = next(each for each in nested if each.name == name)
            yield from self._message(body, depth, f"{label}group {name} = {field.number}{tail} {{")
            return
        yield f"{indent}{label}{_type(field)} {field.name} = {field.number}{tail};"

    def _field_options(self, field: FieldDescriptorProto) -> Iterator[str]:
        if field.HasField("default_value"):
            # protoc has escaped the default of bytes already.
            text = f'"{field.default_value}"' if field.type == 12 else field.default_value
            yield f"default = {quoted(text) if field.type == 9 else text}"
        if field.HasField("json_name") and field.json_name != _camel(field.name):
            yield f"json_name = {quoted(field.json_name)}"
        yield from self._options(field.options)

    def _label(self, field: FieldDescriptorProto) -> str:
        if (self._proto3 or self._editions) and field.label == 1 and not field.proto3_optional:
            return ""
        return _LABELS[field.label]

    def _enum(self, enum: EnumDescriptorProto, depth: int) -> Iterator[str]:
        indent, inner = "  " * depth, "  " * (depth + 1)
        yield f"{indent}enum {enum.name} {{"
        yield from (f"{inner}option {text};" for text in self._options(enum.options))
        for value in enum.value:
            options = f" [{', '.join(found)}]" if (found := list(self._options(value.options))) else ""
            yield f"{inner}{value.name} = {value.number}{options};"
        yield from self._reserved(enum.reserved_range, enum.reserved_name, inner, _MAX_ENUM_NUMBER, exclusive=False)
        yield f"{indent}}}"

    def _reserved(
        self, ranges: Sequence[Any], names: Sequence[str], indent: str, most: int, *, exclusive: bool
    ) -> Iterator[str]:
        if ranges:
            shown = (
                _range(each.start, each.end if exclusive else each.end + 1, most + (not exclusive)) for each in ranges
            )
            yield f"{indent}reserved {', '.join(shown)};"
        if names:
            words = names if self._editions else [quoted(name) for name in names]
            yield f"{indent}reserved {', '.join(words)};"

    def _extensions(
        self, extensions: Sequence[FieldDescriptorProto], nested: Sequence[DescriptorProto], depth: int
    ) -> Iterator[str]:
        indent = "  " * depth
        for field in extensions:
            yield f"{indent}extend {field.extendee} {{"
            yield from self._field(field, nested, depth + 1)
            yield f"{indent}}}"

    def _service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from (f"  option {text};" for text in self._options(service.options))
        for method in service.method:
            taken = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            given = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            options = list(self._options(method.options))
            body = "{ " + " ".join(f"option {text};" for text in options) + " }" if options else "{}"
            yield f"  rpc {method.name} ({taken}) returns ({given}) {body}"
        yield "}"


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name if field.type in (_MESSAGE, _ENUM) else _SCALARS[field.type]


def _group_names(fields: Sequence[FieldDescriptorProto]) -> set[str]:
    return {field.type_name.rpartition(".")[2] for field in fields if field.type == _GROUP}


def _range(start: int, end: int, most: int) -> str:
    """A range whose end is not part of it."""
    if end >= most:
        return f"{start} to max"
    return str(start) if end == start + 1 else f"{start} to {end - 1}"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
