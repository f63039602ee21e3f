"""The Protobuf schemas that clients register, as sources or descriptors: one source, and what protoc makes of it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from ottla.formats.compatibility import InvalidSchema
from ottla.formats.faults import SchemaFault
from ottla.formats.protobuf_compatibility import ProtobufSchema
from ottla.formats.protobuf_options import is_linkable
from ottla.formats.protobuf_text import protobuf_text
from ottla.formats.protoc import run_protoc

_MAIN = "default.proto"


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
    descriptors = {name: _descriptor(source) for name, source in imports.items()}
    sources = {name: imports[name] if found is None else _printed(found) for name, found in descriptors.items()}
    try:
        files = {file.name: file for file in run_protoc(main, {**sources, main: text})}
    except SchemaFault as fault:
        raise InvalidSchema(str(fault)) from fault
    return ProtobufSchema(files.pop(main), files)


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
