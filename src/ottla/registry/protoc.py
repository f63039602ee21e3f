"""Protobuf sources to descriptors, by the protoc that grpcio-tools brings, inside this process.

protoc reads its imports from a directory, so they are written into a temporary one.
"""

from __future__ import annotations

import ast
import base64
import binascii
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from ottla.formats.compatibility import InvalidSchema
from ottla.formats.faults import SchemaFault
from ottla.formats.protobuf_compatibility import ProtobufSchema
from ottla.formats.protobuf_imports import BUILT_IN
from ottla.formats.protobuf_options import is_linkable
from ottla.formats.protobuf_text import protobuf_text
from ottla.formats.protoc import write_source

_MAIN = "default.proto"
_RESERVED = range(19_000, 20_000)


def parse_protobuf(text: str, imports: Mapping[str, str]) -> tuple[str, ProtobufSchema]:
    """Parse a schema, given as source or, as by some clients, as a base64 descriptor; the source, and its descriptor.

    `imports` are the sources (or descriptors) of imported files. Raises InvalidSchema.
    """
    given = _descriptor(text)
    main = _MAIN
    while main in imports:
        main = f"_{main}"
    if given is None:
        return text.strip().replace("\r\n", "\n"), _compiled(text, main, imports)
    printed = _printed(given)
    schema = _compiled(printed, main, imports)
    if _stripped(given) != _stripped(schema.file):
        # The descriptor has options of extensions, which only the imports tell how to print.
        printed = _printed(given, schema.imports)
        schema = _compiled(printed, main, imports)
    if _stripped(given) != _stripped(schema.file):
        if not is_linkable(given, schema.imports):
            raise InvalidSchema("the descriptor is none that protoc makes")
        return text, ProtobufSchema(given, schema.imports)
    return printed, schema


def serialized(schema: ProtobufSchema) -> str:
    """The descriptor in base64."""
    return base64.b64encode(schema.file.SerializeToString(deterministic=True)).decode()


def _printed(given: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto] | None = None) -> str:
    """A client's descriptor as source; InvalidSchema where it has parts that contradict one another."""
    try:
        return protobuf_text(given, imports)
    except (IndexError, KeyError, ValueError, RuntimeError) as fault:  # a generator turns StopIteration into the last
        raise InvalidSchema("the descriptor is none that protoc makes") from fault


def _descriptor(text: str) -> FileDescriptorProto | None:
    """The descriptor in a base64 text; None if the text is something else."""
    try:
        content = base64.b64decode(text.strip(), validate=True)
        return FileDescriptorProto.FromString(content) if content else None
    except (binascii.Error, DecodeError, ValueError):
        return None


def _compiled(text: str, main: str, imports: Mapping[str, str]) -> ProtobufSchema:
    with tempfile.TemporaryDirectory(prefix="ottla-protoc-") as folder:
        for name, source in {**BUILT_IN, **imports, main: text}.items():
            descriptor = _descriptor(source)
            try:
                write_source(Path(folder), name, source if descriptor is None else _printed(descriptor))
            except SchemaFault as fault:
                raise InvalidSchema(str(fault)) from fault
        files = _run(main, folder)
    _refuse_reserved_numbers(files[main])
    return ProtobufSchema(files.pop(main), files)


def _refuse_reserved_numbers(file: FileDescriptorProto) -> None:
    """InvalidSchema for numbers that Protobuf keeps for itself: protoc's command refuses them, its library does not."""
    fields, pending = list(file.extension), list(file.message_type)
    while pending:
        message = pending.pop()
        pending += message.nested_type
        fields += [*message.field, *message.extension]
    for field in fields:
        if field.number in _RESERVED:
            raise InvalidSchema(f"the field {field.name} has the number {field.number}: 19000 to 19999 are reserved")


def _run(main: str, folder: str) -> dict[str, FileDescriptorProto]:
    """The file and all that it imports, by name."""
    from grpc_tools._protoc_compiler import ProtocErrors, get_protos

    spec = find_spec("grpc_tools")
    assert spec is not None and spec.submodule_search_locations
    library = Path(next(iter(spec.submodule_search_locations)), "_proto")
    try:
        modules = get_protos(main.encode(), [folder.encode(), str(library).encode()])
    except ProtocErrors as fault:
        found = "; ".join(_sentence(each) for each in fault.errors())
        raise InvalidSchema(found or str(fault)) from fault
    files = {}
    for _, module in modules:
        descriptor = FileDescriptorProto.FromString(_embedded(module))
        files[descriptor.name] = descriptor
    return files


def _sentence(error: object) -> str:
    """One of protoc's errors; it counts lines and columns from 0."""
    filename, message = (_text(getattr(error, name)) for name in ("filename", "message"))
    line, column = getattr(error, "line", -1), getattr(error, "column", -1)
    return f"{filename} line {line + 1}, column {column + 1}: {message}" if line >= 0 else f"{filename}: {message}"


def _text(content: bytes | str) -> str:
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else content


def _embedded(module: bytes) -> bytes:
    """The serialized descriptor inside a generated Python module."""
    for node in ast.walk(ast.parse(module)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "AddSerializedFile" and isinstance(node.args[0], ast.Constant):
            content = node.args[0].value
            assert isinstance(content, bytes)
            return content
    raise InvalidSchema("protoc made no descriptor")


def _stripped(file: FileDescriptorProto) -> bytes:
    """A descriptor without the parts that sources do not show."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("name")
    copy.ClearField("source_code_info")
    if copy.syntax == "proto2":
        copy.ClearField("syntax")
    pending = list(copy.message_type)
    for extension in copy.extension:
        extension.ClearField("json_name")
    while pending:
        message = pending.pop()
        pending += message.nested_type
        for field in (*message.field, *message.extension):
            if field.json_name == _default_json_name(field.name):
                field.ClearField("json_name")
    return bytes(copy.SerializeToString(deterministic=True))


def _default_json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
